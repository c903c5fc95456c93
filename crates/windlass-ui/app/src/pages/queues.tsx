/** All queues: how deep, how old, how fast. */

import { post, seg } from "../api/client";
import type { Queue } from "../api/types";
import { count, rate, span } from "../format";
import { beat } from "../live/pulse";
import { Button, Card, Head, Problem, Skeleton, StateBar } from "../parts/basics";
import { ListFoot, useList } from "../parts/list";
import { Table, type Column } from "../parts/table";
import { attempt } from "../parts/toast";
import { link } from "../route";
import { FirstTask } from "./overview";

const COLUMNS: Column<Queue>[] = [
  {
    title: "Queue",
    class: "grow",
    cell: (queue) => (
      <span class="with-badge">
        <span class="strong clip">{queue.name}</span>
        {queue.paused && <span class="badge s-paused">paused</span>}
      </span>
    ),
  },
  { title: "Mix", class: "mix wide", cell: (queue) => <StateBar counts={queue.tasks} /> },
  { title: "Pending", class: "num", cell: (queue) => figure(queue.tasks.pending) },
  { title: "Running", class: "num", cell: (queue) => figure(queue.tasks.running) },
  { title: "Scheduled", class: "num wider", cell: (queue) => figure(queue.tasks.scheduled) },
  { title: "Retrying", class: "num wide", cell: (queue) => figure(queue.tasks.retrying) },
  { title: "Blocked", class: "num wider", cell: (queue) => figure(queue.tasks.blocked) },
  { title: "Dead", class: "num", cell: (queue) => <span class={queue.tasks.dead_letter ? "bad" : "faint"}>{count(queue.tasks.dead_letter)}</span> },
  { title: "Oldest", class: "num wide", cell: (queue) => (queue.oldest_pending_age_seconds ? span(queue.oldest_pending_age_seconds * 1000) : <span class="faint">–</span>) },
  { title: "Done / s", class: "num wider", cell: (queue) => rate(queue.rates.completed_per_second) },
  { title: "Actions", class: "end", cell: (queue) => <PauseButton queue={queue} /> },
];

function figure(value: number) {
  return <span class={value ? "" : "faint"}>{count(value)}</span>;
}

export function Queues() {
  const list = useList<Queue>("/api/v1/queues", {}, 200);
  return (
    <>
      <Head title="Queues" sub="A queue comes into being with its first task." />
      <Problem error={list.error} />
      <Card flush>
        {!list.rows && !list.error && <Skeleton lines={6} height={28} />}
        {list.rows?.length === 0 && <FirstTask />}
        {list.rows && list.rows.length > 0 && (
          <Table
            label="Queues"
            columns={COLUMNS}
            rows={list.rows}
            id={(queue) => queue.name}
            href={(queue) => link(["queues", queue.name])}
            onEnd={list.more}
            foot={!list.complete && <ListFoot list={list} one="queue" />}
          />
        )}
      </Card>
    </>
  );
}

export function PauseButton({ queue, text = false }: { queue: Queue; text?: boolean }) {
  const act = queue.paused ? "resume" : "pause";
  const run = (): void => {
    const done = queue.paused ? `${queue.name} runs again` : `${queue.name} is paused: its tasks wait`;
    void attempt(done, () => post(`/api/v1/queues/${seg(queue.name)}/${act}`)).then(beat);
  };
  const label = `${queue.paused ? "Resume" : "Pause"} ${queue.name}`;
  if (text) {
    return (
      <Button icon={queue.paused ? "play" : "pause"} tone={queue.paused ? "primary" : "plain"} onClick={run}>
        {queue.paused ? "Resume" : "Pause"}
      </Button>
    );
  }
  return <Button tone="quiet" icon={queue.paused ? "play" : "pause"} label={label} onClick={run} />;
}
