/** Acts on many tasks: those under way and those that were, with who asked. */

import { post, seg } from "../api/client";
import type { Operation } from "../api/types";
import { count } from "../format";
import { Ago, Bar, Button, Card, Empty, Head, Problem, Skeleton } from "../parts/basics";
import { ListFoot, useList } from "../parts/list";
import { Table, type Column } from "../parts/table";
import { attempt } from "../parts/toast";
import { link } from "../route";

const TONES = { running: "running", done: "completed", cancelled: "cancelled", failed: "dead_letter" } as const;

export function Operations() {
  const list = useList<Operation>("/api/v1/operations", {}, 200);
  const columns: Column<Operation>[] = [
    { title: "Action", cell: (it) => <span class="strong">{it.action.replace("_", " ")}</span> },
    { title: "State", cell: (it) => <span class={`badge s-${TONES[it.state]}`}>{it.state}</span> },
    { title: "Filter", class: "grow wide", cell: (it) => <code class="clip">{it.filter}</code> },
    {
      title: "Changed",
      class: "busy",
      cell: (it) => (
        <span class="busy-cell">
          {it.state === "running" && <Bar value={it.progress} label="Progress" />}
          <span class="num">{count(it.changed)}</span>
        </span>
      ),
    },
    { title: "Skipped", class: "num wider", cell: (it) => count(it.skipped) },
    { title: "By", class: "wider", cell: (it) => it.by ?? <span class="faint">–</span> },
    { title: "Began", class: "num", cell: (it) => <Ago at={it.created_at} /> },
    {
      title: "Actions",
      class: "end",
      cell: (it) =>
        it.state === "running" && (
          <Button tone="quiet" icon="cancel" label="Stop it" onClick={() => void attempt("Stopped", () => post(`/api/v1/operations/${seg(it.id)}/cancel`)).then(list.refresh)} />
        ),
    },
  ];
  return (
    <>
      <Head title="Operations" sub="Acts on all tasks that match a filter. They go on over restarts, and are kept for 90 days." />
      <Problem error={list.error} />
      <Card flush>
        {!list.rows && !list.error && <Skeleton lines={4} height={28} />}
        {list.rows?.length === 0 && (
          <Empty icon="operations" title="No operations yet">
            <p>
              <a href="#/tasks">Filter tasks</a>, then act on all that match.
            </p>
          </Empty>
        )}
        {list.rows && list.rows.length > 0 && (
          <Table
            label="Operations"
            columns={columns}
            rows={list.rows}
            id={(it) => it.id}
            href={(it) => link(["tasks"], { filter: it.filter })}
            onEnd={list.more}
            foot={!list.complete && <ListFoot list={list} one="operation" />}
          />
        )}
      </Card>
    </>
  );
}
