/** Graphs of tasks that were submitted as one. */

import type { StateName, Workflow } from "../api/types";
import { count } from "../format";
import { Ago, BY_PROGRESS, Card, Empty, Head, Problem, Skeleton, StateBar } from "../parts/basics";
import { ListFoot, useList } from "../parts/list";
import { Table, type Column } from "../parts/table";
import { link } from "../route";

const TONES: Record<Workflow["state"], StateName> = { running: "running", failed: "dead_letter", cancelled: "cancelled", completed: "completed" };

export function WorkflowBadge({ state }: { state: Workflow["state"] }) {
  return <span class={`badge s-${TONES[state]}`}>{state}</span>;
}

const COLUMNS: Column<Workflow>[] = [
  { title: "Workflow", class: "grow", cell: (it) => <span class="strong clip">{it.id}</span> },
  { title: "State", cell: (it) => <WorkflowBadge state={it.state} /> },
  { title: "Progress", class: "mix wide", cell: (it) => <StateBar counts={it.tasks_by_state} states={BY_PROGRESS} /> },
  { title: "Done", class: "num", cell: (it) => `${count(it.tasks_by_state.completed)} / ${count(it.size)}` },
  { title: "Began", class: "num", cell: (it) => <Ago at={it.created_at} /> },
];

export function Workflows() {
  const list = useList<Workflow>("/api/v1/workflows", {}, 200);
  return (
    <>
      <Head title="Workflows" sub="Graphs of tasks, submitted as one." />
      <Problem error={list.error} />
      <Card flush>
        {!list.rows && !list.error && <Skeleton lines={5} height={28} />}
        {list.rows?.length === 0 && (
          <Empty icon="workflows" title="No workflows yet">
            <p>A workflow is a set of tasks, each with the names of those it comes after:</p>
            <code>windlass workflow submit '{'{"tasks":{"a":{"type":"echo"},"b":{"type":"echo","after":["a"]}}}'}'</code>
          </Empty>
        )}
        {list.rows && list.rows.length > 0 && (
          <Table
            label="Workflows"
            columns={COLUMNS}
            rows={list.rows}
            id={(it) => it.id}
            href={(it) => link(["workflows", it.id])}
            onEnd={list.more}
            foot={!list.complete && <ListFoot list={list} one="workflow" />}
          />
        )}
      </Card>
    </>
  );
}
