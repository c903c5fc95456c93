/** One task, with everything that is known of it. */

import { useEffect } from "preact/hooks";
import { post, seg } from "../api/client";
import { rawField } from "../api/json";
import type { Attempt, Dependency, Explanation, Task } from "../api/types";
import { useResource } from "../data";
import { attemptsOf, exactly, priorityClass, span } from "../format";
import { watchTask } from "../live/socket";
import { Ago, Bar, Button, Card, Copy, Empty, Facts, Head, Problem, Skeleton, StateBadge } from "../parts/basics";
import { Json, Text } from "../parts/json";
import { Attempts, Timeline } from "../parts/timeline";
import { attempt } from "../parts/toast";
import { asCli, asCurl, submission } from "../parts/commands";
import { link } from "../route";

/** What a task waits for when a limit is in its way. */
const LIMITED = ["limit_full", "rate_limited", "limit_paused"];

export function TaskPage({ id }: { id: string }) {
  const path = `/api/v1/tasks/${seg(id)}`;
  const task = useResource<Task>(path);
  const attempts = useResource<{ items: Attempt[] }>(`${path}/attempts`);
  const live = task.data !== undefined && !isTerminal(task.data);
  const explanation = useResource<Explanation>(live ? `${path}/explain` : undefined);
  useEffect(() => {
    if (!live) return;
    return watchTask(id, () => {
      task.refresh();
      attempts.refresh();
      explanation.refresh();
    });
  }, [id, live]);
  if (task.error?.status === 404) return <Gone id={id} />;
  const data = task.data;
  return (
    <>
      <Head
        back={{ href: "#/tasks", text: "Tasks" }}
        title={
          <>
            {data?.type ?? "Task"} {data && <StateBadge state={data.state} />}
          </>
        }
        sub={
          <span class="id-line">
            <code>{id}</code>
            <Copy text={id} label="Copy the id" />
          </span>
        }
      >
        {data && <Actions task={data} text={task.text ?? ""} refresh={task.refresh} />}
      </Head>
      <Problem error={task.error} />
      {!data && !task.error && (
        <Card>
          <Skeleton lines={8} />
        </Card>
      )}
      {data && (
        <div class="grid main-aside">
          <div class="stack">
            <Standing task={data} explanation={explanation.data} />
            <Card title="Timeline">
              <Timeline task={data} attempts={attempts.data?.items ?? []} />
            </Card>
            <Card title="Attempts">
              {attempts.data ? <Attempts attempts={attempts.data.items} /> : <Skeleton lines={3} />}
            </Card>
            <Bodies task={data} text={task.text ?? ""} />
          </div>
          <aside class="stack" aria-label="Details">
            <Details task={data} />
            {(data.dependency_count ?? 0) > 0 && <Dependencies path={path} count={data.dependency_count ?? 0} />}
            <Metadata task={data} />
          </aside>
        </div>
      )}
    </>
  );
}

function isTerminal(task: Task): boolean {
  return task.state === "completed" || task.state === "dead_letter" || task.state === "cancelled";
}

function Gone({ id }: { id: string }) {
  return (
    <>
      <Head back={{ href: "#/tasks", text: "Tasks" }} title="Task" />
      <Empty icon="search" title="There is no task with this id">
        <p>
          <code>{id}</code>
        </p>
        <p>It may have been forgotten: finished tasks are kept for a while only.</p>
      </Empty>
    </>
  );
}

function Actions({ task, text, refresh }: { task: Task; text: string; refresh: () => void }) {
  const path = `/api/v1/tasks/${seg(task.id)}`;
  const act = (word: string, done: string): void => {
    void attempt(done, () => post(`${path}/${word}`)).then(refresh);
  };
  const again = (): ReturnType<typeof submission> => submission(task, text);
  return (
    <>
      {(task.state === "dead_letter" || task.state === "cancelled") && (
        <Button icon="retry" tone="primary" onClick={() => act("retry", "It runs again")}>
          Retry
        </Button>
      )}
      {!isTerminal(task) && (
        <Button icon="cancel" tone="danger" onClick={() => act("cancel", "It is cancelled")}>
          Cancel
        </Button>
      )}
      <a class="button plain" href={link(["submit"], { from: task.id })}>
        Edit and resubmit
      </a>
      <Copy text={() => asCurl(again())} label="Copy as curl">
        curl
      </Copy>
      <Copy text={() => asCli(again())} label="Copy for the CLI">
        CLI
      </Copy>
    </>
  );
}

/** What it is doing now, or why it is not doing anything. */
function Standing({ task, explanation }: { task: Task; explanation: Explanation | undefined }) {
  const progress = task.progress;
  if (task.state === "running") {
    return (
      <Card title="Running">
        <p>
          On <a href="#/workers">{task.worker_id}</a> since <Ago at={task.started_at} />, lease until <Ago at={task.lease_expires_at} />.
        </p>
        {progress && (
          <div class="progress-line">
            <Bar value={progress.fraction ?? 0} label="Progress" />
            <span class="num">{Math.round((progress.fraction ?? 0) * 100)} %</span>
            {progress.note && <span class="faint">{progress.note}</span>}
          </div>
        )}
      </Card>
    );
  }
  if (isTerminal(task)) return null;
  return (
    <Card title={explanation?.runnable ? "What it waits for" : "Why it is not running"}>
      {!explanation && <Skeleton lines={2} />}
      <ul class="reasons">
        {explanation?.reasons.map((reason) => (
          <li key={reason.code + reason.text}>
            <code>{reason.code}</code>
            <span>
              {reason.text}
              {reason.until && (
                <span class="faint">
                  {" "}
                  (<Ago at={reason.until} />)
                </span>
              )}
              {LIMITED.includes(reason.code) && (
                <>
                  {" "}
                  <a href="#/limits">Limits</a>
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Bodies({ task, text }: { task: Task; text: string }) {
  const payload = rawField(text, "payload");
  const result = rawField(text, "result");
  return (
    <>
      {task.error && (
        <Card title="Error">
          <Text text={task.error} label="error" />
        </Card>
      )}
      {(result !== undefined || task.result_base64 !== undefined) && (
        <Card title="Result">{result !== undefined ? <Json text={result} label="result" /> : <Text text={task.result_base64 ?? ""} label="result in base64" />}</Card>
      )}
      <Card title={task.payload_base64 === undefined ? "Payload" : "Payload (bytes, in base64)"}>
        {task.payload_base64 === undefined ? <Json text={payload ?? "null"} label="payload" /> : <Text text={task.payload_base64} label="payload in base64" />}
      </Card>
    </>
  );
}

function Details({ task }: { task: Task }) {
  const rows: Parameters<typeof Facts>[0]["rows"] = [
    ["Queue", <a href={link(["queues", task.queue])}>{task.queue}</a>],
    ["Priority", `${task.priority} (${priorityClass(task.priority)})`],
    ["Attempts", attemptsOf(task)],
  ];
  if (task.crashes > 0) rows.push(["Lost workers", `${task.crashes} of ${task.max_crashes}`]);
  rows.push(["Time limit", span(task.timeout_seconds * 1000)], ["Submitted", when(task.created_at)]);
  if (task.scheduled_at) rows.push(["Not before", when(task.scheduled_at)]);
  if (task.expires_at) rows.push(["Not after", when(task.expires_at)]);
  if (task.next_retry_at) rows.push(["Next attempt", when(task.next_retry_at)]);
  if (task.completed_at) rows.push(["Ended", when(task.completed_at)]);
  if (task.cancel_reason) rows.push(["Cancelled because", task.cancel_reason]);
  if (task.key) rows.push(["Key", <a href={link(["tasks"], { filter: `key:${task.key}` })}>{task.key}</a>]);
  if (task.unique_key) rows.push(["Unique key", <code>{task.unique_key}</code>]);
  if (task.workflow_id) rows.push(["Workflow", <a href={link(["workflows", task.workflow_id])}>{task.workflow_id}</a>]);
  if (task.checkpoint_at) rows.push(["Checkpoint", when(task.checkpoint_at)]);
  rows.push(["Kept for", span(task.retention_seconds * 1000)]);
  return (
    <Card title="Details">
      <Facts rows={rows} />
    </Card>
  );
}

function when(at: string) {
  return (
    <>
      <Ago at={at} />
      <small class="faint">{exactly(at)}</small>
    </>
  );
}

function Dependencies({ path, count }: { path: string; count: number }) {
  const found = useResource<{ items: Dependency[]; total: number }>(`${path}/dependencies?limit=50`);
  return (
    <Card title={`Depends on ${count}`}>
      {!found.data && <Skeleton lines={2} />}
      <ul class="dependencies">
        {found.data?.items.map((it) => (
          <li key={it.id}>
            <a class="clip" href={link(["tasks", it.id])}>
              {it.name ?? it.id}
            </a>
            {it.state ? <StateBadge state={it.state} /> : <span class="faint">forgotten</span>}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Metadata({ task }: { task: Task }) {
  const entries = Object.entries(task.metadata ?? {});
  if (entries.length === 0) return null;
  return (
    <Card title="Metadata">
      <Facts rows={entries.map(([name, value]) => [name, <code>{value}</code>])} />
    </Card>
  );
}
