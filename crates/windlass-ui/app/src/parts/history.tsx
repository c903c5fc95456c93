/** What the broker has recorded of itself, as charts. */

import { useMemo } from "preact/hooks";
import { url } from "../api/client";
import type { MetricsRange } from "../api/types";
import { useResource } from "../data";
import { rate, span } from "../format";
import { now } from "../live/pulse";
import { Card, Empty } from "./basics";
import { Chart, type Line } from "./chart";

const RANGES = { "15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400 } as const;
export type RangeName = keyof typeof RANGES;
/** Points of a chart; more than pixels would be of no use. */
const POINTS = 180;

export interface History {
  data: MetricsRange | undefined;
  /** The broker has none. */
  missing: boolean;
}

export function rangeIn(text: string | null): RangeName {
  return text !== null && text in RANGES ? (text as RangeName) : "15m";
}

/** The end of the span moves on in steps, so that a page that beats every second asks for the same thing. */
export function useHistory(range: RangeName, series: string, queue?: string): History {
  const step = Math.max(1, Math.floor(RANGES[range] / POINTS));
  const to = Math.floor(now.value / 1000 / step) * step;
  const from = to - RANGES[range];
  const moment = (seconds: number): string => new Date(seconds * 1000).toISOString();
  const asked = url("/api/v1/metrics/range", { series, queue, from: moment(from), to: moment(to), step: `${step}s` });
  const resource = useResource<MetricsRange>(asked, { steady: true });
  // The last answer stays while the next one, for a slightly later span, is on its way.
  const kept = useMemo<{ data?: MetricsRange }>(() => ({}), [range, series, queue]);
  if (resource.data) kept.data = resource.data;
  return { data: kept.data, missing: !kept.data && resource.error !== undefined };
}

export function Spans({ range, choose }: { range: RangeName; choose: (range: string) => void }) {
  return (
    <div class="segments" role="group" aria-label="Time span">
      {Object.keys(RANGES).map((name) => (
        <button key={name} type="button" aria-pressed={name === range} onClick={() => choose(name)}>
          {name.replace(/(\d+)/, "$1 ")}
        </button>
      ))}
    </div>
  );
}

function times(metrics: MetricsRange): number[] {
  const from = typeof metrics.from === "number" ? metrics.from : Date.parse(metrics.from) / 1000;
  const length = Math.max(0, ...Object.values(metrics.series).map((values) => values.length));
  return Array.from({ length }, (_, at) => from + at * metrics.step_seconds);
}

type Strokes = [name: string, series: string, colour: string, fill: boolean][];

/** Made anew only with an answer, so that a chart is not drawn again for nothing. */
function useLines(history: History, strokes: Strokes): { at: number[]; lines: Line[] } {
  return useMemo(() => {
    const series = history.data?.series ?? {};
    const lines = strokes.map(([name, key, colour, fill]) => ({ name, colour, fill, values: series[key] ?? [] }));
    return { lines, at: history.data ? times(history.data) : [] };
  }, [history.data]);
}

const PACE: Strokes = [
  ["submitted", "submitted", "--c-submitted", false],
  ["completed", "completed", "--c-completed", true],
  ["failed", "failed", "--c-failed", false],
];

export function Throughput({ history, range }: { history: History; range: string }) {
  const { at, lines } = useLines(history, PACE);
  return (
    <Card title="Throughput" side={<span class="faint">tasks per second</span>}>
      {history.data ? <Chart label={`Tasks per second over the last ${range}`} times={at} lines={lines} format={rate} /> : <NoChart missing={history.missing} />}
    </Card>
  );
}

const WAITS: Strokes = [
  ["p50", "wait_p50", "--c-p50", true],
  ["p95", "wait_p95", "--c-p95", false],
  ["p99", "wait_p99", "--c-p99", false],
];

/** Seconds that people count in. */
const SPANS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];

export function Waits({ history, range }: { history: History; range: string }) {
  const { at, lines } = useLines(history, WAITS);
  return (
    <Card title="Wait before start" side={<span class="faint">by share of tasks</span>}>
      {history.data ? <Chart label={`How long tasks waited over the last ${range}`} times={at} lines={lines} format={(value) => span(value * 1000)} steps={SPANS} /> : <NoChart missing={history.missing} />}
    </Card>
  );
}

function NoChart({ missing }: { missing: boolean }) {
  return <div class="chart-place">{missing ? <Empty icon="overview" title="No history yet" /> : <span class="skeleton chart-skeleton" />}</div>;
}
