/** What a task went through: its stretches to scale, and its moments one by one. */

import type { Attempt, Task } from "../api/types";
import { exactly, span, stateLabel, timeOfDay } from "../format";
import { now } from "../live/pulse";
import { link } from "../route";

interface Stretch {
  state: string;
  from: number;
  to: number;
}

interface Moment {
  at: string;
  what: string;
  state: string;
  more?: string;
}

export function Timeline({ task, attempts }: { task: Task; attempts: Attempt[] }) {
  const parts = stretches(task, attempts, now.value);
  const total = parts.reduce((sum, it) => sum + Math.max(0, it.to - it.from), 0) || 1;
  return (
    <div class="timeline">
      <div class="stretches" role="img" aria-label={parts.map((it) => `${stateLabel(it.state)} for ${span(it.to - it.from)}`).join(", then ")}>
        {parts.map((it, at) => (
          <span key={at} class={`fill s-${it.state}`} style={{ flexGrow: Math.max(0.02, (it.to - it.from) / total) }} title={`${stateLabel(it.state)}: ${span(it.to - it.from)}`} />
        ))}
      </div>
      <ol class="moments">
        {moments(task, attempts).map((it, at, all) => (
          <li key={at}>
            <i class={`dot s-${it.state}`} />
            <time dateTime={it.at} title={exactly(it.at)}>
              {timeOfDay(it.at)}
            </time>
            <span>
              {it.what}
              {it.more && <span class="faint"> {it.more}</span>}
            </span>
            <span class="faint num">{at > 0 ? `+${span(Date.parse(it.at) - Date.parse(all[at - 1]?.at ?? it.at))}` : ""}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function stretches(task: Task, attempts: Attempt[], clock: number): Stretch[] {
  const parts: Stretch[] = [];
  let at = Date.parse(task.created_at);
  const until = (state: string, to: number): void => {
    if (to > at) parts.push({ state, from: at, to });
    at = Math.max(at, to);
  };
  const due = task.scheduled_at ? Date.parse(task.scheduled_at) : at;
  const end = task.completed_at ? Date.parse(task.completed_at) : Math.max(clock, at);
  until("scheduled", Math.min(due, end));
  attempts.forEach((attempt, number) => {
    until(number === 0 ? (task.dependency_count ? "blocked" : "pending") : "retrying", Date.parse(attempt.started_at));
    until(attempt.outcome === "failed" || attempt.outcome === "crashed" ? "failed-run" : "running", attempt.ended_at ? Date.parse(attempt.ended_at) : end);
  });
  until(task.completed_at ? "pending" : task.state, end);
  return parts;
}

const ENDINGS: Record<Attempt["outcome"], [string, string]> = {
  running: ["runs", "running"],
  completed: ["completed", "completed"],
  failed: ["failed", "dead_letter"],
  crashed: ["lost its worker", "dead_letter"],
  released: ["was given back", "pending"],
  cancelled: ["was cancelled", "cancelled"],
};

function moments(task: Task, attempts: Attempt[]): Moment[] {
  const list: Moment[] = [{ at: task.created_at, what: "Submitted", state: "pending" }];
  if (task.scheduled_at && Date.parse(task.scheduled_at) > Date.parse(task.created_at)) {
    list.push({ at: task.scheduled_at, what: "Due", state: "scheduled" });
  }
  for (const attempt of attempts) {
    list.push({ at: attempt.started_at, what: `Attempt ${attempt.attempt} started`, state: "running", more: `on ${attempt.worker_id}` });
    const [ending, state] = ENDINGS[attempt.outcome];
    if (attempt.ended_at) list.push({ at: attempt.ended_at, what: `Attempt ${attempt.attempt} ${ending}`, state });
  }
  if (task.next_retry_at) list.push({ at: task.next_retry_at, what: "Next attempt", state: "retrying" });
  if (task.completed_at && task.state !== "completed") {
    list.push({ at: task.completed_at, what: task.state === "cancelled" ? "Cancelled" : "Became a dead letter", state: task.state });
  }
  return list.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

export function Attempts({ attempts }: { attempts: Attempt[] }) {
  if (attempts.length === 0) return <p class="faint">It has not started yet.</p>;
  return (
    <ol class="attempts" tabIndex={0} aria-label="Attempts, side by side">
      {attempts.map((attempt, at) => {
        const [ending, state] = ENDINGS[attempt.outcome];
        return (
          <li key={at} class="attempt">
            <header>
              <b>#{attempt.attempt}</b>
              <span class={`badge s-${state}`}>{ending}</span>
            </header>
            <dl>
              <dt>Started</dt>
              <dd title={exactly(attempt.started_at)}>{timeOfDay(attempt.started_at)}</dd>
              <dt>Took</dt>
              <dd>{attempt.duration_ms === undefined ? span(now.value - Date.parse(attempt.started_at)) : span(attempt.duration_ms)}</dd>
              <dt>Worker</dt>
              <dd class="clip">
                <a href={link(["tasks"], { filter: `worker:${attempt.worker_id}` })}>{attempt.worker_id}</a>
              </dd>
            </dl>
            {attempt.error && <pre class="wrap">{attempt.error}</pre>}
          </li>
        );
      })}
    </ol>
  );
}
