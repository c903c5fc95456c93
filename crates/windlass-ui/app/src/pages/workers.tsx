/** Who is there to do the work. */

import { post, seg } from "../api/client";
import type { Worker } from "../api/types";
import { bytes, count, percent } from "../format";
import { beat } from "../live/pulse";
import { Ago, Bar, Button, Card, Empty, Head, Problem, Skeleton } from "../parts/basics";
import { ListFoot, useList } from "../parts/list";
import { Table, type Column } from "../parts/table";
import { attempt } from "../parts/toast";
import { link } from "../route";

const COLUMNS: Column<Worker>[] = [
  {
    title: "Worker",
    class: "grow",
    cell: (worker) => (
      <span class="with-badge">
        <i class={worker.active ? "dot s-completed" : "dot s-cancelled"} title={worker.active ? "active" : "silent"} />
        <span class="strong clip">{worker.id}</span>
        {worker.paused && <span class="badge s-paused">paused</span>}
        {worker.processes > 1 && <span class="badge s-retrying">{worker.processes} processes</span>}
      </span>
    ),
  },
  { title: "Host", class: "wider", cell: (worker) => <span class="faint">{worker.host ? `${worker.host}${worker.pid ? ` · ${worker.pid}` : ""}` : "–"}</span> },
  { title: "Queues", class: "wide", cell: (worker) => <span class="clip">{worker.queues.join(", ") || "–"}</span> },
  { title: "Types", class: "wide", cell: (worker) => <span class="clip faint">{worker.types?.join(", ") || "all"}</span> },
  { title: "Busy", class: "busy", cell: (worker) => <Busy worker={worker} /> },
  { title: "CPU", class: "num wider", cell: (worker) => (worker.cpu == null ? <span class="faint">–</span> : percent(worker.cpu)) },
  { title: "Memory", class: "num wider", cell: (worker) => (worker.memory_bytes == null ? <span class="faint">–</span> : bytes(worker.memory_bytes)) },
  { title: "Seen", class: "num", cell: (worker) => <Ago at={worker.last_heartbeat_at} /> },
  { title: "Actions", class: "end", cell: (worker) => <Pause worker={worker} /> },
];

function Busy({ worker }: { worker: Worker }) {
  const held = worker.tasks.length;
  if (worker.slots == null) return <span class="num">{count(held)}</span>;
  return (
    <span class="busy-cell">
      <Bar value={worker.slots > 0 ? held / worker.slots : 0} label={`Busy slots of ${worker.id}`} />
      <span class="num">
        {held}/{worker.slots}
      </span>
    </span>
  );
}

function Pause({ worker }: { worker: Worker }) {
  const word = worker.paused ? "Resume" : "Pause";
  const run = (): void => {
    const done = worker.paused ? `${worker.id} takes tasks again` : `${worker.id} takes no new tasks`;
    void attempt(done, () => post(`/api/v1/workers/${seg(worker.id)}/${word.toLowerCase()}`)).then(beat);
  };
  return <Button tone="quiet" icon={worker.paused ? "play" : "pause"} label={`${word} ${worker.id}`} onClick={run} />;
}

export function Workers() {
  const list = useList<Worker>("/api/v1/workers", {}, 200);
  return (
    <>
      <Head title="Workers" sub="Who is there, and what they hold." />
      <Problem error={list.error} />
      <Card flush>
        {!list.rows && !list.error && <Skeleton lines={4} height={28} />}
        {list.rows?.length === 0 && (
          <Empty icon="workers" title="No worker is connected">
            <p>Tasks wait until one is. Any program can be a worker:</p>
            <code>windlass worker exec --type resize -- ./resize.sh</code>
          </Empty>
        )}
        {list.rows && list.rows.length > 0 && (
          <Table
            label="Workers"
            columns={COLUMNS}
            rows={list.rows}
            id={(it) => it.id}
            href={(it) => link(["tasks"], { filter: `worker:${it.id}` })}
            onEnd={list.more}
            foot={!list.complete && <ListFoot list={list} one="worker" />}
          />
        )}
      </Card>
    </>
  );
}
