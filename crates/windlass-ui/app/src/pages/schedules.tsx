/** Schedules: when they fire next, and what became of the last time. */

import { useState } from "preact/hooks";
import { post, remove, seg } from "../api/client";
import type { Fire, Schedule } from "../api/types";
import { useResource } from "../data";
import { count } from "../format";
import { beat } from "../live/pulse";
import { Ago, Button, Card, Empty, Head, Problem, Skeleton, StateBadge } from "../parts/basics";
import { Confirm } from "../parts/dialog";
import { Icon } from "../parts/icon";
import { ListFoot, useList } from "../parts/list";
import { Table, type Column } from "../parts/table";
import { attempt, say } from "../parts/toast";
import { go, link } from "../route";

const COLUMNS: Column<Schedule>[] = [
  {
    title: "Schedule",
    class: "grow",
    cell: (it) => (
      <span class="with-badge">
        <span class="strong clip">{it.id}</span>
        {it.paused && <span class="badge s-paused">paused</span>}
      </span>
    ),
  },
  {
    title: "When",
    class: "wide",
    cell: (it) => (
      <span>
        <code>{it.cron}</code> <span class="faint zone">{it.timezone}</span>
      </span>
    ),
  },
  { title: "Task", class: "wider", cell: (it) => <span class="clip">{it.task.type}</span> },
  { title: "Next", class: "num", cell: (it) => (it.paused ? <span class="faint">–</span> : <Ago at={it.next_at} />) },
  { title: "Last", class: "wide", cell: (it) => <LastFire schedule={it} /> },
  { title: "Fired", class: "num wider", cell: (it) => count(it.fired) },
  { title: "Actions", class: "end", cell: (it) => <ScheduleTools schedule={it} /> },
];

export function Schedules() {
  const list = useList<Schedule>("/api/v1/schedules", {}, 200);
  return (
    <>
      <Head title="Schedules" sub="Tasks that are submitted by the clock.">
        <a class="button primary" href="#/schedule">
          <Icon name="submit" /> New schedule
        </a>
      </Head>
      <Problem error={list.error} />
      <Card flush>
        {!list.rows && !list.error && <Skeleton lines={5} height={28} />}
        {list.rows?.length === 0 && (
          <Empty icon="schedules" title="No schedules yet">
            <p>
              A schedule is a cron pattern and a task. <a href="#/schedule">Make the first one here</a>, or from a shell:
            </p>
            <code>windlass schedule add nightly --cron '0 2 * * *' --type report.build</code>
          </Empty>
        )}
        {list.rows && list.rows.length > 0 && (
          <Table
            label="Schedules"
            columns={COLUMNS}
            rows={list.rows}
            id={(it) => it.id}
            href={(it) => link(["schedules", it.id])}
            onEnd={list.more}
            foot={!list.complete && <ListFoot list={list} one="schedule" />}
          />
        )}
      </Card>
    </>
  );
}

function LastFire({ schedule }: { schedule: Schedule }) {
  const last = useResource<{ items: Fire[] }>(schedule.last_task_id ? `/api/v1/schedules/${seg(schedule.id)}/fires?limit=1` : undefined);
  const fire = last.data?.items[0];
  if (!fire) return <span class="faint">never</span>;
  return (
    <span class="with-badge">
      {fire.state ? <StateBadge state={fire.state} /> : <span class="faint">forgotten</span>}
      <span class="faint">
        <Ago at={fire.fired_at} />
      </span>
    </span>
  );
}

export function ScheduleTools({ schedule, text = false }: { schedule: Schedule; text?: boolean }) {
  const path = `/api/v1/schedules/${seg(schedule.id)}`;
  const run = (): void => void attempt(`${schedule.id} was started by hand`, () => post(`${path}/run`)).then(beat);
  const pause = (): void => {
    const done = schedule.paused ? `${schedule.id} goes on` : `${schedule.id} is paused`;
    void attempt(done, () => post(`${path}/${schedule.paused ? "resume" : "pause"}`)).then(beat);
  };
  const [forgetting, setForgetting] = useState(false);
  const forget = async (): Promise<void> => {
    await remove(path);
    say(`${schedule.id} is gone`);
    go("#/schedules");
  };
  const word = schedule.paused ? "Resume" : "Pause";
  if (text) {
    return (
      <>
        <Button icon="bolt" tone="primary" onClick={run}>
          Run now
        </Button>
        <Button icon={schedule.paused ? "play" : "pause"} onClick={pause}>
          {word}
        </Button>
        <a class="button plain" href={link(["schedule"], { edit: schedule.id })}>
          <Icon name="edit" /> Edit
        </a>
        <Button tone="danger" icon="cancel" onClick={() => setForgetting(true)}>
          Delete
        </Button>
        {forgetting && (
          <Confirm title={`Delete ${schedule.id}?`} act="Delete" onClose={() => setForgetting(false)} onAgree={forget}>
            It fires no more, and its history is forgotten. Tasks that it made stay.
          </Confirm>
        )}
      </>
    );
  }
  return (
    <span class="row tight">
      <Button tone="quiet" icon="bolt" label={`Run ${schedule.id} now`} onClick={run} />
      <Button tone="quiet" icon={schedule.paused ? "play" : "pause"} label={`${word} ${schedule.id}`} onClick={pause} />
    </span>
  );
}
