/** A task by hand, or an earlier one once more with changes. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { request, seg } from "../api/client";
import { mistake, pretty } from "../api/json";
import type { Task } from "../api/types";
import { useAct, useResource } from "../data";
import { Button, Card, Copy, Head, Problem, Skeleton, StateBadge } from "../parts/basics";
import { asCli, asCurl, body, submission, type Submission } from "../parts/commands";
import { Editor, Field } from "../parts/form";
import { link } from "../route";

const NEW: Submission = { type: "", queue: "default", payload: "{\n  \n}", priority: "normal", maxRetries: 3, timeoutSeconds: 300, metadata: {} };

export function Submit({ from }: { from: string | undefined }) {
  const source = useResource<Task>(from ? `/api/v1/tasks/${seg(from)}` : undefined, { steady: true });
  if (from && !source.data) {
    return (
      <>
        <Head title="Edit and resubmit" />
        <Problem error={source.error} />
        {!source.error && (
          <Card>
            <Skeleton lines={8} />
          </Card>
        )}
      </>
    );
  }
  const start = source.data && source.text ? submission(source.data, source.text) : NEW;
  return <Form key={from ?? ""} start={{ ...start, payload: from ? pretty(start.payload) : start.payload }} from={from} />;
}

function Form({ start, from }: { start: Submission; from: string | undefined }) {
  const [it, setIt] = useState(start);
  const [sent, setSent] = useState<string>();
  const act = useAct();
  const set = (change: Partial<Submission>): void => setIt({ ...it, ...change });
  const wrong = useMemo(() => (it.payloadBase64 === undefined ? mistake(it.payload) : undefined), [it.payload, it.payloadBase64]);
  const send = (event: Event): void => {
    event.preventDefault();
    if (wrong || it.type === "") return;
    act.run(async () => {
      const task = JSON.parse(await request("POST", "/api/v1/tasks", body(it))) as Task;
      setSent(task.id);
    });
  };
  const fieldError = (name: string): string | undefined => act.error?.fields.find((field) => field.field === name)?.message;
  return (
    <>
      <Head title={from ? "Edit and resubmit" : "Submit a task"} sub={from ? "A new task is made; the old one stays as it is." : undefined} back={from ? { href: link(["tasks", from]), text: "The task" } : undefined} />
      <div class="grid main-aside">
        <Card>
          <form class="form" onSubmit={send}>
            <div class="pair">
              <Field label="Type" value={it.type} set={(type) => set({ type })} required placeholder="email.send" error={fieldError("type")} />
              <Field label="Queue" value={it.queue} set={(queue) => set({ queue })} required error={fieldError("queue")} />
            </div>
            {it.payloadBase64 === undefined ? (
              <Editor text={it.payload} set={(payload) => set({ payload })} wrong={wrong} />
            ) : (
              <Field label="Payload (bytes, in base64)" value={it.payloadBase64} set={(payloadBase64) => set({ payloadBase64 })} />
            )}
            <div class="quad">
              <Field label="Priority" value={String(it.priority)} set={(text) => set({ priority: /^\d+$/.test(text) ? Number(text) : text })} error={fieldError("priority")} list="classes" />
              <Field label="Retries" type="number" value={String(it.maxRetries)} set={(text) => set({ maxRetries: Number(text) })} error={fieldError("max_retries")} />
              <Field label="Time limit, s" type="number" value={String(it.timeoutSeconds)} set={(text) => set({ timeoutSeconds: Number(text) })} error={fieldError("timeout_seconds")} />
              <Field label="Delay, s" type="number" value={it.delaySeconds === undefined ? "" : String(it.delaySeconds)} set={(text) => (text ? set({ delaySeconds: Number(text) }) : setIt(without(it, "delaySeconds")))} error={fieldError("delay_seconds")} placeholder="none" />
              <datalist id="classes">
                {["critical", "high", "normal", "low"].map((word) => (
                  <option key={word} value={word} />
                ))}
              </datalist>
            </div>
            <div class="pair">
              <Field label="Key (share and limit)" value={it.key ?? ""} set={(text) => (text ? set({ key: text }) : setIt(without(it, "key")))} error={fieldError("key")} placeholder="none" />
              <Field label="Unique key" value={it.uniqueKey ?? ""} set={(text) => (text ? set({ uniqueKey: text }) : setIt(without(it, "uniqueKey")))} error={fieldError("unique_key")} placeholder="none" />
            </div>
            <Problem error={act.error} />
            <div class="row">
              <Button type="submit" tone="primary" icon="submit" busy={act.busy} disabled={wrong !== undefined || it.type === ""}>
                Submit
              </Button>
              <Copy text={() => asCurl(it)} label="Copy as curl">
                curl
              </Copy>
              <Copy text={() => asCli(it)} label="Copy for the CLI">
                CLI
              </Copy>
            </div>
          </form>
        </Card>
        <aside class="stack" aria-label="What became of it">
          {sent ? <Follow id={sent} /> : <Hint />}
        </aside>
      </div>
    </>
  );
}

function without<K extends keyof Submission>(it: Submission, field: K): Submission {
  const { [field]: _gone, ...rest } = it;
  return rest as Submission;
}

function Hint() {
  return (
    <Card title="What happens">
      <ul class="hints">
        <li>The broker answers when the task is on disk.</li>
        <li>A worker that listens to the queue and the type takes it, the highest priority first.</li>
        <li>
          In <code>windlass dev</code> the types <code>echo</code>, <code>sleep</code>, <code>fail</code> and <code>http</code> run without a worker of your own.
        </li>
      </ul>
    </Card>
  );
}

/** The new task, watched to its end. */
function Follow({ id }: { id: string }) {
  const task = useResource<Task>(`/api/v1/tasks/${seg(id)}`);
  useEffect(() => {
    if (task.data?.completed_at) return;
    const timer = setInterval(task.refresh, 1000);
    return () => clearInterval(timer);
  }, [task.data?.completed_at]);
  return (
    <Card title="Submitted">
      <p class="with-badge" role="status" aria-live="polite">
        {task.data ? <StateBadge state={task.data.state} /> : <Skeleton lines={1} />}
        <a href={link(["tasks", id])}>Open the task</a>
      </p>
      <p class="clip">
        <code>{id}</code>
      </p>
      {task.data?.error && <p class="note">{task.data.error}</p>}
    </Card>
  );
}
