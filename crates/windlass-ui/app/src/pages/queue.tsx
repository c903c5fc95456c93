/** One queue: its tasks by state and class, its limit, and the latest tasks in it. */

import { useState } from "preact/hooks";
import { request, seg, url } from "../api/client";
import { STATES, type Limit, type Page, type Queue, type Task } from "../api/types";
import { useResource } from "../data";
import { count, plural, rate, span, stateLabel } from "../format";
import { Button, Card, Facts, Head, Problem, Skeleton, StateBar } from "../parts/basics";
import { Confirm } from "../parts/dialog";
import { Throughput, useHistory } from "../parts/history";
import { LimitForm, limitPath, rateText, Standing } from "../parts/limit";
import { say } from "../parts/toast";
import { Table } from "../parts/table";
import { link } from "../route";
import { PauseButton } from "./queues";
import { TASK_COLUMNS } from "./tasks";

const LATEST = 20;

export function QueuePage({ name }: { name: string }) {
  const queue = useResource<Queue>(`/api/v1/queues/${seg(name)}`);
  const tasks = useResource<Page<Task>>(url("/api/v1/tasks", { queue: name, limit: LATEST }));
  const history = useHistory("1h", "submitted,completed,failed", name);
  const data = queue.data;
  return (
    <>
      <Head title={name} back={{ href: "#/queues", text: "Queues" }} sub={data?.paused ? "Paused: nothing of it starts until it is resumed." : undefined}>
        {data && <PauseButton queue={data} text />}
        <a class="button plain" href={link(["tasks"], { filter: `queue:${name}` })}>
          All its tasks
        </a>
        {data && <Purge queue={data} done={queue.refresh} />}
      </Head>
      <Problem error={queue.error} />
      <div class="grid three">
        <Card title="Depth">
          {data ? (
            <>
              <StateBar counts={data.tasks} height={12} />
              <ul class="state-counts">
                {STATES.map((state) => (
                  <li key={state}>
                    <a href={link(["tasks"], { filter: `queue:${name} state:${state}` })}>
                      <i class={`dot s-${state}`} />
                      <span>{stateLabel(state)}</span>
                      <b class="num">{count(data.tasks[state])}</b>
                    </a>
                  </li>
                ))}
              </ul>
            </>
          ) : (
            <Skeleton lines={8} />
          )}
        </Card>
          <Card title="Pace">
            {data ? (
              <Facts
                rows={[
                  ["Submitted", `${rate(data.rates.submitted_per_second)} / s`],
                  ["Completed", `${rate(data.rates.completed_per_second)} / s`],
                  ["Failed", `${rate(data.rates.failed_per_second)} / s`],
                  ["Oldest waiting", data.oldest_pending_age_seconds ? span(data.oldest_pending_age_seconds * 1000) : "–"],
                  ...Object.entries(data.pending_by_priority).map(([word, number]): [string, string] => [`Waiting, ${word}`, count(number)]),
                ]}
              />
            ) : (
              <Skeleton lines={5} />
            )}
          </Card>
          <LimitCard name={name} />
      </div>
      <Throughput history={history} range="1h" />
      <Card title="Latest tasks" flush>
        {tasks.data ? <Table label="Latest tasks" columns={TASK_COLUMNS} rows={tasks.data.items} id={(task) => task.id} href={(task) => link(["tasks", task.id])} /> : <Skeleton lines={6} height={28} />}
      </Card>
    </>
  );
}

/** Forgets what waits. How many these are is what the counter says now; the broker counts what it does. */
function Purge({ queue, done }: { queue: Queue; done: () => void }) {
  const [asking, setAsking] = useState(false);
  const purge = async (): Promise<void> => {
    const { affected } = JSON.parse(await request("DELETE", `/api/v1/queues/${seg(queue.name)}/tasks`)) as { affected: number };
    say(`${plural(affected, "task")} of ${queue.name} forgotten`);
    done();
  };
  return (
    <>
      <Button tone="danger" icon="cancel" disabled={queue.tasks.pending === 0} onClick={() => setAsking(true)}>
        Purge
      </Button>
      {asking && (
        <Confirm title={`Purge ${queue.name}?`} act="Purge" onClose={() => setAsking(false)} onAgree={purge}>
          {plural(queue.tasks.pending, "pending task")} of {queue.name} are forgotten without a trace. What runs, retries or is scheduled stays. This cannot be undone.
        </Confirm>
      )}
    </>
  );
}

function LimitCard({ name }: { name: string }) {
  const limit = useResource<Limit>(limitPath("queue", name));
  const [editing, setEditing] = useState(false);
  const none = limit.error?.status === 404;
  const data = none ? undefined : limit.data;
  const back = (): void => setEditing(false);
  return (
    <Card title="Limit" side={!editing && <Button tone="quiet" icon="edit" label="Change the limit" onClick={() => setEditing(true)} />}>
      {!none && <Problem error={limit.error} />}
      {editing && <LimitForm scope="queue" name={name} limit={data} done={() => (back(), limit.refresh())} back={back} />}
      {!editing && none && <p class="faint">As many of its tasks run at once as workers take.</p>}
      {!editing && data && (
        <>
          <Facts
            rows={[
              ["Now", <Standing limit={data} />],
              ["At once", data.max_concurrency == null ? "any number" : `${count(data.running)} of ${count(data.max_concurrency)}`],
              ["Starts", data.rate ? rateText(data.rate) : "any number"],
              ["Waiting", data.max_depth == null ? count(data.waiting) : `${count(data.waiting)} of ${count(data.max_depth)}`],
              ...(data.ageing ? [["A step of priority", `every ${span(data.ageing.every_seconds * 1000)}`] as [string, string]] : []),
            ]}
          />
          {data.blocked && <p class="note">{data.blocked.text}</p>}
        </>
      )}
      {!editing && (
        <p class="card-more">
          <a href="#/limits">Limits of types and keys</a>
        </p>
      )}
    </Card>
  );
}
