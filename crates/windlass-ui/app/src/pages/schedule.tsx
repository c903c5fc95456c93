/** One schedule: the slots to come and the fires that were. */

import { seg } from "../api/client";
import { rawField } from "../api/json";
import type { Fire, Schedule, Slot } from "../api/types";
import { useResource } from "../data";
import { count, exactly, span } from "../format";
import { Ago, Card, Empty, Facts, Head, Problem, Skeleton, StateBadge } from "../parts/basics";
import { Json } from "../parts/json";
import { link } from "../route";
import { ScheduleTools } from "./schedules";

export function SchedulePage({ id }: { id: string }) {
  const path = `/api/v1/schedules/${seg(id)}`;
  const schedule = useResource<Schedule>(path);
  const next = useResource<{ items: Slot[] }>(`${path}/next?count=6`);
  const fires = useResource<{ items: Fire[] }>(`${path}/fires?limit=30`);
  const data = schedule.data;
  return (
    <>
      <Head back={{ href: "#/schedules", text: "Schedules" }} title={id} sub={data?.standing.text}>
        {data && <ScheduleTools schedule={data} text />}
      </Head>
      <Problem error={schedule.error} />
      <div class="grid main-aside">
        <div class="stack">
          <Card title="Last fires">
            {!fires.data && !fires.error && <Skeleton lines={5} />}
            {fires.data?.items.length === 0 && <Empty icon="schedules" title="It has not fired yet" />}
            {fires.data && fires.data.items.length > 0 && <Fires fires={fires.data.items} />}
          </Card>
          {schedule.text && (
            <Card title="Task">
              <Json text={rawField(schedule.text, "task") ?? "null"} label="task of the schedule" />
            </Card>
          )}
        </div>
        <aside class="stack" aria-label="Details">
          <Card title={data?.paused ? "Next, if it were not paused" : "Next"}>
            {!next.data && <Skeleton lines={4} />}
            <ol class="slots">
              {next.data?.items.map((slot) => (
                <li key={slot.scheduled_at}>
                  <span>{exactly(slot.scheduled_at)}</span>
                  <span class="faint">
                    <Ago at={slot.starts_at} />
                  </span>
                </li>
              ))}
            </ol>
          </Card>
          {data && (
            <Card title="Details">
              <Facts
                rows={[
                  ["When", <code>{data.cron}</code>],
                  ["Time zone", data.timezone],
                  ["Type", <a href={link(["tasks"], { filter: `type:${data.task.type}` })}>{data.task.type}</a>],
                  ["Queue", <a href={link(["queues", data.task.queue])}>{data.task.queue}</a>],
                  ["If the last is not done", data.overlap],
                  ["Missed slots", data.catch_up],
                  ["Jitter", data.jitter_seconds > 0 ? span(data.jitter_seconds * 1000) : "none"],
                  ["Fired", count(data.fired)],
                  ["Left out", count(data.skipped)],
                ]}
              />
            </Card>
          )}
        </aside>
      </div>
    </>
  );
}

function Fires({ fires }: { fires: Fire[] }) {
  return (
    <>
      <div class="fire-strip" aria-hidden="true">
        {[...fires].reverse().map((fire) => (
          <span key={fire.task_id} class={`fill s-${fire.state ?? "cancelled"}`} title={exactly(fire.fired_at)} />
        ))}
      </div>
      <ul class="fires">
        {fires.map((fire) => (
          <li key={fire.task_id}>
            {fire.state ? <StateBadge state={fire.state} /> : <span class="badge">forgotten</span>}
            <a href={link(["tasks", fire.task_id])}>{exactly(fire.scheduled_at)}</a>
            <span class="faint clip">{fire.manual ? "by hand" : (fire.error ?? "")}</span>
            <span class="faint num">{fire.started_at && fire.completed_at ? span(Date.parse(fire.completed_at) - Date.parse(fire.started_at)) : ""}</span>
          </li>
        ))}
      </ul>
    </>
  );
}
