/** An act on all tasks that match: first how many it would be, then how far it is, and a way to stop it. */

import { useEffect, useState } from "preact/hooks";
import { get, post, Refusal, seg } from "../api/client";
import type { Action, Operation, Order, Preview } from "../api/types";
import { useAct } from "../data";
import { count, plural, rate } from "../format";
import { beat } from "../live/pulse";
import { link } from "../route";
import { Bar, Button, Problem, Skeleton, StateBadge } from "./basics";
import { Dialog } from "./dialog";

const ACTIONS: { action: Action; name: string; does: string }[] = [
  { action: "retry", name: "Retry", does: "Dead letters and cancelled tasks run again, with their attempts counted anew." },
  { action: "cancel", name: "Cancel", does: "Tasks that have not ended are cancelled; workers are told." },
  { action: "delete", name: "Delete", does: "All but running tasks are forgotten. This cannot be undone." },
  { action: "set_priority", name: "Set priority", does: "Waiting tasks and dead letters move to the end of the line at that priority." },
  { action: "move", name: "Move", does: "Waiting tasks and dead letters move to the end of the line of another queue." },
];

export function Act({ filter, action: given, onClose }: { filter: string; action?: Action; onClose: () => void }) {
  const [action, setAction] = useState<Action>(given ?? (/state:dead/.test(filter) ? "retry" : "cancel"));
  const [priority, setPriority] = useState("high");
  const [queue, setQueue] = useState("");
  const [operation, setOperation] = useState<Operation>();
  const act = useAct();
  const order: Order = { action, filter, by: "dashboard" };
  if (action === "set_priority") order.priority = /^\d+$/.test(priority) ? Number(priority) : priority;
  if (action === "move") order.queue = queue;
  const ready = action !== "move" || queue !== "";
  const preview = usePreview(ready ? order : undefined);
  const chosen = ACTIONS.find((it) => it.action === action);
  const start = (): void => act.run(async () => setOperation(await post<Operation>("/api/v1/operations", order)));
  return (
    <Dialog title={operation ? `${chosen?.name ?? ""} all that match` : "Act on all that match"} onClose={onClose}>
      <p class="filter-shown">
        <code>{filter}</code>
      </p>
      {operation ? (
        <Running operation={operation} setOperation={setOperation} onClose={onClose} />
      ) : (
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            start();
          }}
        >
          <label class="field">
            <span>What to do</span>
            <select class="input" value={action} onChange={(event) => setAction(event.currentTarget.value as Action)}>
              {ACTIONS.map((it) => (
                <option key={it.action} value={it.action}>
                  {it.name}
                </option>
              ))}
            </select>
          </label>
          <p class="faint does">{chosen?.does}</p>
          {action === "set_priority" && (
            <label class="field">
              <span>Priority: 0–255, or critical, high, normal, low</span>
              <input class="input" value={priority} onInput={(event) => setPriority(event.currentTarget.value)} />
            </label>
          )}
          {action === "move" && (
            <label class="field">
              <span>To queue</span>
              <input class="input" value={queue} onInput={(event) => setQueue(event.currentTarget.value.trim())} />
            </label>
          )}
          <Found preview={preview.data} ready={ready} />
          <Problem error={act.error ?? preview.error} />
          <div class="row end">
            <Button onClick={onClose}>Back</Button>
            <Button type="submit" tone={action === "delete" ? "danger" : "primary"} busy={act.busy} disabled={!preview.data || preview.data.would_change === 0}>
              {preview.data && preview.data.would_change > 0 ? `${chosen?.name ?? ""}: ${atLeast(preview.data.would_change, preview.data.would_change_at_least)}` : chosen?.name}
            </Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

function atLeast(value: number, more: boolean): string {
  return `${plural(value, "task")}${more ? " or more" : ""}`;
}

function usePreview(order: Order | undefined): { data: Preview | undefined; error: Refusal | undefined } {
  const [seen, setSeen] = useState<{ key: string; data?: Preview; error?: Refusal }>();
  const key = JSON.stringify(order ?? null);
  useEffect(() => {
    if (!order) return;
    let ended = false;
    const timer = setTimeout(() => {
      post<Preview>("/api/v1/operations", { ...order, dry_run: true })
        .then((data) => !ended && setSeen({ key, data }))
        .catch((error: unknown) => !ended && setSeen({ key, error: error instanceof Refusal ? error : new Refusal(0, "failed", String(error)) }));
    }, 150);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [key]);
  const mine = seen?.key === key ? seen : undefined;
  return { data: mine?.data, error: mine?.error };
}

function Found({ preview, ready }: { preview: Preview | undefined; ready: boolean }) {
  if (!ready) return <div class="found" />;
  if (!preview) {
    return (
      <div class="found">
        <Skeleton lines={3} />
      </div>
    );
  }
  return (
    <div class="found" role="status">
      <p>
        <b>{atLeast(preview.matched, preview.matched_at_least)}</b> match, <b>{atLeast(preview.would_change, preview.would_change_at_least)}</b> would change.
      </p>
      <ul>
        {preview.sample.slice(0, 4).map((sample) => (
          <li key={sample.id}>
            <StateBadge state={sample.state} /> <span class="strong">{sample.type}</span> <span class="faint clip">{sample.error ?? sample.id}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}

const LOOK_MS = 400;

function Running({ operation, setOperation, onClose }: { operation: Operation; setOperation: (operation: Operation) => void; onClose: () => void }) {
  const path = `/api/v1/operations/${seg(operation.id)}`;
  const act = useAct();
  const live = operation.state === "running";
  useEffect(() => {
    if (!live) {
      beat();
      return;
    }
    const timer = setTimeout(() => {
      get<Operation>(path)
        .then(setOperation)
        .catch(() => setOperation({ ...operation }));
    }, LOOK_MS);
    return () => clearTimeout(timer);
  }, [operation]);
  return (
    <div class="running">
      <Bar value={live ? operation.progress : 1} label="Progress of the operation" />
      <p role="status" aria-live="polite">
        {live ? "Under way: " : `${ENDS[operation.state]}: `}
        <b>{count(operation.changed)} changed</b>
        {operation.skipped > 0 && `, ${count(operation.skipped)} skipped`}
        {operation.failed > 0 && `, ${count(operation.failed)} failed`}
        {live && ` · ${rate(operation.rate_per_second)} / s`}
      </p>
      {operation.reason && <p class="note">{operation.reason}</p>}
      <Problem error={act.error} />
      <div class="row end">
        {live && (
          <Button tone="danger" busy={act.busy} onClick={() => act.run(async () => setOperation(await post<Operation>(`${path}/cancel`)))}>
            Stop it
          </Button>
        )}
        <a class="button plain" href={link(["operations"])} onClick={onClose}>
          All operations
        </a>
        <Button tone="primary" onClick={onClose}>
          {live ? "Leave it running" : "Close"}
        </Button>
      </div>
    </div>
  );
}

const ENDS = { running: "Under way", done: "Done", cancelled: "Stopped", failed: "Failed" } as const;
