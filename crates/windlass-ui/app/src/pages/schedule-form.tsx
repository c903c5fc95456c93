/** A new schedule, or another definition for one that is there. */

import { useMemo, useState } from "preact/hooks";
import { request, seg } from "../api/client";
import { mistake, pretty, rawField } from "../api/json";
import type { Schedule } from "../api/types";
import { useAct, useResource } from "../data";
import { Button, Card, Head, Problem, Skeleton } from "../parts/basics";
import { Choice, Editor, Field } from "../parts/form";
import { say } from "../parts/toast";
import { go, link } from "../route";

interface Draft {
  id: string;
  cron: string;
  timezone: string;
  overlap: string;
  catchUp: string;
  jitter: string;
  type: string;
  queue: string;
  /** JSON text; absent when the payload is bytes, which stay as they are. */
  payload: string | undefined;
}

const NEW: Draft = { id: "", cron: "", timezone: "UTC", overlap: "allow", catchUp: "one", jitter: "0", type: "", queue: "default", payload: "{\n  \n}" };

const OVERLAPS: [string, string][] = [
  ["allow", "fire all the same"],
  ["skip", "leave the slot out"],
  ["queue_one", "fire as soon as it ends"],
  ["cancel_running", "fire, and cancel the last one"],
];
const CATCH_UPS: [string, string][] = [
  ["one", "fire once for all of them"],
  ["all", "fire for each of them"],
  ["skip", "leave them out"],
];
const PATTERNS: [string, string][] = [
  ["*/15 * * * *", "every quarter of an hour"],
  ["0 2 * * *", "at two every night"],
  ["30 7 * * MON-FRI", "half past seven on weekdays"],
  ["0 9 1 * *", "at nine on the first of the month"],
  ["@every 90s", "every 90 seconds"],
];

export function ScheduleForm({ id }: { id: string | undefined }) {
  const source = useResource<Schedule>(id ? `/api/v1/schedules/${seg(id)}` : undefined, { steady: true });
  if (id && !(source.data && source.text)) {
    return (
      <>
        <Head title="Edit a schedule" back={{ href: link(["schedules", id]), text: id }} />
        <Problem error={source.error} />
        {!source.error && (
          <Card>
            <Skeleton lines={8} />
          </Card>
        )}
      </>
    );
  }
  return <Form key={id ?? ""} id={id} text={source.text} start={source.data && source.text ? draft(source.data, source.text) : NEW} />;
}

function draft(schedule: Schedule, text: string): Draft {
  const payload = rawField(rawField(text, "task") ?? "{}", "payload");
  const bytes = payload === undefined && rawField(rawField(text, "task") ?? "{}", "payload_base64") !== undefined;
  return {
    id: schedule.id,
    cron: schedule.cron,
    timezone: schedule.timezone,
    overlap: schedule.overlap,
    catchUp: schedule.catch_up,
    jitter: String(schedule.jitter_seconds),
    type: schedule.task.type,
    queue: schedule.task.queue,
    payload: bytes ? undefined : pretty(payload ?? "null"),
  };
}

/** What a definition says besides what the form shows. */
const KEPT = ["catch_up_window_seconds", "starts_at", "ends_at", "paused"];

/** The body of a PUT. Everything that the form does not show stays as it was, word for word. */
export function definition(it: Draft, before: string | undefined): string {
  const task = before ? (rawField(before, "task") ?? "{}") : "{}";
  const fields: [string, string | undefined][] = [
    ["type", JSON.stringify(it.type)],
    ["queue", JSON.stringify(it.queue)],
    ["payload", it.payload],
    ...Object.keys(JSON.parse(task) as object)
      .filter((name) => !["type", "queue", "payload"].includes(name))
      .map((name): [string, string | undefined] => [name, rawField(task, name)]),
  ];
  return written([
    ["cron", JSON.stringify(it.cron)],
    ["timezone", JSON.stringify(it.timezone)],
    ["overlap", JSON.stringify(it.overlap)],
    ["catch_up", JSON.stringify(it.catchUp)],
    ["jitter_seconds", JSON.stringify(Number(it.jitter) || 0)],
    ...KEPT.map((name): [string, string | undefined] => [name, before ? rawField(before, name) : undefined]),
    ["task", written(fields)],
  ]);
}

function written(fields: [string, string | undefined][]): string {
  const parts = fields.filter(([, text]) => text !== undefined).map(([name, text]) => `${JSON.stringify(name)}:${text}`);
  return `{${parts.join(",")}}`;
}

function Form({ id, text, start }: { id: string | undefined; text: string | undefined; start: Draft }) {
  const [it, setIt] = useState(start);
  const act = useAct();
  const set = (change: Partial<Draft>): void => setIt({ ...it, ...change });
  const wrong = useMemo(() => (it.payload === undefined ? undefined : mistake(it.payload)), [it.payload]);
  const ready = it.id !== "" && it.cron !== "" && it.type !== "" && wrong === undefined;
  const errorOf = (...names: string[]): string | undefined => act.error?.fields.find((field) => names.includes(field.field))?.message;
  const save = (event: Event): void => {
    event.preventDefault();
    if (!ready) return;
    act.run(async () => {
      if (id === undefined) {
        // A new one must not replace another of that name without a word.
        await request("POST", "/api/v1/schedules", `{"id":${JSON.stringify(it.id)},${definition(it, text).slice(1)}`);
      } else {
        // As it is now: somebody may have paused it since the form was opened.
        const path = `/api/v1/schedules/${seg(id)}`;
        await request("PUT", path, definition(it, await request("GET", path)));
      }
      say(id === undefined ? `${it.id} fires from now on` : `${it.id} goes by its new definition`);
      go(link(["schedules", it.id]));
    });
  };
  const back = id === undefined ? { href: "#/schedules", text: "Schedules" } : { href: link(["schedules", id]), text: id };
  return (
    <>
      <Head title={id === undefined ? "New schedule" : "Edit a schedule"} back={back} />
      <div class="grid main-aside">
        <Card>
          <form class="form" onSubmit={save}>
            <div class="pair">
              <Field label="Name" value={it.id} set={(name) => set({ id: name })} required readOnly={id !== undefined} placeholder="nightly-report" error={errorOf("id")} />
              <Field label="Time zone" value={it.timezone} set={(timezone) => set({ timezone })} required list="zones" error={errorOf("timezone")} />
            </div>
            <Field label="When" value={it.cron} set={(cron) => set({ cron })} required placeholder="0 2 * * MON-FRI" error={errorOf("cron")} hint="Minute, hour, day, month, day of the week; or @daily, or @every 90s." />
            <div class="pair">
              <Field label="Type" value={it.type} set={(type) => set({ type })} required placeholder="report.build" error={errorOf("type", "task.type")} />
              <Field label="Queue" value={it.queue} set={(queue) => set({ queue })} required error={errorOf("queue", "task.queue")} />
            </div>
            {it.payload !== undefined && <Editor text={it.payload} set={(payload) => set({ payload })} wrong={wrong} rows={7} />}
            <div class="triple">
              <Choice label="If the last one is not done" value={it.overlap} set={(overlap) => set({ overlap })} choices={OVERLAPS} />
              <Choice label="If slots were missed" value={it.catchUp} set={(catchUp) => set({ catchUp })} choices={CATCH_UPS} />
              <Field label="Start late by up to, s" type="number" value={it.jitter} set={(jitter) => set({ jitter })} error={errorOf("jitter_seconds")} />
            </div>
            <datalist id="zones">
              {zones().map((zone) => (
                <option key={zone} value={zone} />
              ))}
            </datalist>
            <Problem error={act.error} />
            <div class="row">
              <Button type="submit" tone="primary" icon="check" busy={act.busy} disabled={!ready}>
                {id === undefined ? "Make the schedule" : "Save"}
              </Button>
              <a class="button plain" href={back.href}>
                Back
              </a>
            </div>
          </form>
        </Card>
        <aside class="stack" aria-label="Patterns">
          <Card title="Patterns">
            <ul class="patterns">
              {PATTERNS.map(([pattern, meaning]) => (
                <li key={pattern}>
                  <button type="button" onClick={() => set({ cron: pattern })}>
                    {pattern}
                  </button>
                  <span class="faint">{meaning}</span>
                </li>
              ))}
            </ul>
          </Card>
          <Card title="Which slot is it?">
            <p class="faint">
              <code>{"{{scheduled_at}}"}</code> in a string of the payload becomes the time of the slot.
            </p>
          </Card>
        </aside>
      </div>
    </>
  );
}

/** UTC and where this browser is first. */
function zones(): string[] {
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const all = Intl.supportedValuesOf?.("timeZone") ?? [];
  return [...new Set(["UTC", here, ...all])];
}
