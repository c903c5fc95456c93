/** How the broker is doing, at a glance. */

import { url } from "../api/client";
import type { MetricsRange, Page, Queue, Stats, Task } from "../api/types";
import { useResource } from "../data";
import { compact, count, percent, rate, span } from "../format";
import { perSecond } from "../live/pulse";
import { Ago, Card, Empty, Head, Problem, Skeleton, StateBadge, StateBar } from "../parts/basics";
import { Sparkline } from "../parts/chart";
import { rangeIn, Spans, Throughput, useHistory, Waits } from "../parts/history";
import { link, replaceQuery, route } from "../route";

const SERIES = "submitted,completed,failed,wait_p50,wait_p95,wait_p99,oldest_pending,dead_letter";

export function Overview() {
  const range = rangeIn(route.value.query.get("range"));
  const stats = useResource<Stats>("/api/v1/stats");
  const queues = useResource<Page<Queue>>("/api/v1/queues?limit=1000");
  const history = useHistory(range, SERIES);
  return (
    <>
      <Head title="Overview">
        <Spans range={range} choose={(name) => replaceQuery({ range: name })} />
      </Head>
      <Problem error={stats.error} />
      <Tiles stats={stats.data} metrics={history.data} />
      <div class="grid two">
        <Throughput history={history} range={range} />
        <Waits history={history} range={range} />
      </div>
      <div class="grid two">
        <QueueList queues={queues.data?.items} />
        <Failures />
      </div>
    </>
  );
}

function Tiles({ stats, metrics }: { stats: Stats | undefined; metrics: MetricsRange | undefined }) {
  const submitted = perSecond((it) => it.submitted_total) ?? stats?.rates.submitted_per_second;
  const done = perSecond((it) => it.completed_total) ?? stats?.rates.completed_per_second;
  const failed = stats?.rates.failed_per_second ?? 0;
  const ended = (stats?.rates.completed_per_second ?? 0) + failed;
  const failing = ended > 0 ? failed / ended : 0;
  const oldest = stats?.oldest_pending_age_seconds ?? 0;
  const series = metrics?.series ?? {};
  const shares = (series.failed ?? []).map((bad, at) => {
    const all = (bad ?? 0) + (series.completed?.[at] ?? 0);
    return all > 0 ? (bad ?? 0) / all : 0;
  });
  return (
    <div class="tiles">
      <Tile name="Submitted" value={submitted === undefined ? undefined : rate(submitted)} unit="/ s" values={series.submitted} colour="--c-submitted" href="#/tasks" />
      <Tile name="Done" value={done === undefined ? undefined : rate(done)} unit="/ s" values={series.completed} colour="--c-completed" href={link(["tasks"], { filter: "state:completed" })} />
      <Tile name="Failing" value={stats && percent(failing)} unit="of attempts" values={shares} colour="--c-failed" href={link(["tasks"], { filter: "state:failed" })} />
      <Tile name="Oldest waiting" value={stats && (oldest > 0 ? span(oldest * 1000) : "–")} values={series.oldest_pending} colour="--c-wait" href={link(["tasks"], { filter: "state:pending" })} />
      <Tile name="Dead letters" value={stats && compact(stats.tasks.dead_letter)} values={series.dead_letter} colour="--c-failed" href="#/dead" />
    </div>
  );
}

function Tile(props: { name: string; value: string | undefined; unit?: string; values: (number | null)[] | undefined; colour: string; href: string }) {
  return (
    <a class="tile" href={props.href}>
      <span class="tile-name">{props.name}</span>
      <span class="tile-value">
        {props.value ?? <span class="skeleton tile-skeleton" />}
        {props.value && props.unit && <small>{props.unit}</small>}
      </span>
      <Sparkline values={props.values ?? []} colour={props.colour} />
    </a>
  );
}

const WAITING = ["running", "pending", "retrying", "scheduled", "blocked"] as const;
const SHOWN_MAX = 6;

function QueueList({ queues }: { queues: Queue[] | undefined }) {
  const depth = (queue: Queue): number => WAITING.reduce((sum, state) => sum + queue.tasks[state], 0);
  const shown = [...(queues ?? [])].sort((a, b) => depth(b) - depth(a)).slice(0, SHOWN_MAX);
  const deepest = Math.max(1, ...shown.map(depth));
  return (
    <Card title="Busiest queues" side={<a href="#/queues">All queues</a>}>
      {!queues && <Skeleton lines={4} height={28} />}
      {queues?.length === 0 && <FirstTask />}
      <ul class="queue-list">
        {shown.map((queue) => (
          <li key={queue.name}>
            <a href={link(["queues", queue.name])}>{queue.name}</a>
            {queue.paused && <span class="badge s-paused">paused</span>}
            <span class="num">{count(depth(queue))}</span>
            <div class="queue-depth">
              <div style={{ width: `${(depth(queue) / deepest) * 100}%` }}>
                <StateBar counts={queue.tasks} states={WAITING} />
              </div>
            </div>
          </li>
        ))}
      </ul>
    </Card>
  );
}

export function FirstTask() {
  return (
    <Empty icon="bolt" title="No tasks yet">
      <p>
        <a href="#/submit">Submit the first one here</a>, or from a shell:
      </p>
      <code>windlass submit echo '{'{"hello":"world"}'}' --wait</code>
    </Empty>
  );
}

function Failures() {
  const failures = useResource<Page<Task>>(url("/api/v1/tasks", { filter: "state:failed", limit: SHOWN_MAX }));
  return (
    <Card title="Latest failures" side={<a href="#/dead">Dead letters</a>}>
      {!failures.data && <Skeleton lines={4} height={28} />}
      {failures.data?.items.length === 0 && (
        <Empty icon="check" title="Nothing fails">
          <p>Tasks that fail appear here with their error.</p>
        </Empty>
      )}
      <ul class="failure-list">
        {failures.data?.items.map((task) => (
          <li key={task.id}>
            <StateBadge state={task.state} />
            <a href={link(["tasks", task.id])}>{task.type}</a>
            <span class="clip faint">{task.error ?? "no error text"}</span>
            <span class="faint when">
              <Ago at={task.updated_at} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}
