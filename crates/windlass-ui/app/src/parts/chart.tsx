/**
 * Lines over time. uPlot draws them on a canvas; what a screen reader gets is the sentence in `label`. It is a file of its own,
 * fetched with the first chart, so that pages without one do not wait for it.
 */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { lazy } from "../format";
import { isDark } from "../theme";

export interface Line {
  name: string;
  /** A custom property of the style sheet. */
  colour: string;
  values: (number | null)[];
  fill?: boolean;
}

interface Props {
  label: string;
  /** Seconds since 1970. */
  times: number[];
  lines: Line[];
  format: (value: number) => string;
  /** What the lines of the grid are apart, to choose from; round numbers unless given. */
  steps?: number[];
  height?: number;
}

export function Chart({ label, times, lines, format, steps, height = 220 }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const [at, setAt] = useState<number | null>(null);
  const names = lines.map((line) => line.name).join();
  const dark = isDark.value;
  const formatter = useRef(format);
  formatter.current = format;

  const data = useMemo(() => [times, ...lines.map((line) => line.values)] as uPlot.AlignedData, [times, lines]);
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let gone = false;
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    void plotter().then((Plot) => {
      if (gone) return;
      plot.current = new Plot(options(element, { lines, height, steps }, formatter, setAt), latest.current, element);
      resized.observe(element);
    });
    return () => {
      gone = true;
      resized.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [names, dark, height]);

  useEffect(() => plot.current?.setData(data), [data]);

  const said = lines.map((line) => `${line.name} ${shown(line, null, format)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption class="legend">
        {lines.map((line) => (
          <span key={line.name} class="legend-item">
            <i style={{ background: `var(${line.colour})` }} />
            {line.name}
            <b>{shown(line, at, format)}</b>
          </span>
        ))}
      </figcaption>
      <div ref={box} role="img" aria-label={`${label}. Latest: ${said}.`} style={{ height }} />
    </figure>
  );
}

const plotter = lazy(() => import("uplot").then((it) => it.default));

/** The value under the pointer, or the last one that there is. */
function shown(line: Line, at: number | null, format: (value: number) => string): string {
  const value = at === null ? line.values.findLast((it) => it !== null) : line.values[at];
  return value === null || value === undefined ? "–" : format(value);
}

const hour = lazy(() => new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }));

function options(
  element: HTMLElement,
  { lines, height, steps }: { lines: Line[]; height: number; steps: number[] | undefined },
  format: { current: (value: number) => string },
  setAt: (at: number | null) => void,
): uPlot.Options {
  const resolve = resolver(element);
  const axis = {
    stroke: resolve("--text-faint"),
    font: `11px ${getComputedStyle(element).fontFamily}`,
    grid: { stroke: resolve("--line-soft"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: element.clientWidth,
    height,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.12 : 1] } },
    axes: [
      { ...axis, size: 30, grid: { show: false }, values: (_plot, splits) => splits.map((split) => hour().format(split * 1000)), space: 70 },
      { ...axis, size: 54, values: (_plot, splits) => splits.map((split) => format.current(split)), space: 36, ...(steps ? { incrs: steps } : {}) },
    ],
    series: [
      {},
      ...lines.map((line) => ({
        label: line.name,
        stroke: resolve(line.colour),
        width: 1.75,
        points: { show: false },
        ...(line.fill ? { fill: resolve(`${line.colour}-wash`) } : {}),
      })),
    ],
    hooks: { setCursor: [(plot) => setAt(plot.cursor.idx ?? null)] },
  };
}

/** A canvas knows no custom properties, so an element is asked what they come to. */
function resolver(element: HTMLElement): (name: string) => string {
  return (name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    element.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  };
}

export function Sparkline({ values, colour }: { values: (number | null)[]; colour: string }) {
  const known = values.map((value, at) => ({ value, at })).filter((point): point is { value: number; at: number } => point.value !== null);
  if (known.length < 2) return <svg class="spark" aria-hidden="true" />;
  const most = Math.max(...known.map((point) => point.value), 1e-9);
  const x = (at: number): string => ((at / (values.length - 1)) * 100).toFixed(2);
  const points = known.map(({ value, at }) => `${x(at)},${(27 - (value / most) * 24).toFixed(2)}`);
  const [from, to] = [x(known[0]?.at ?? 0), x(known.at(-1)?.at ?? 0)];
  return (
    <svg class="spark" viewBox="0 0 100 28" preserveAspectRatio="none" aria-hidden="true" style={{ color: `var(${colour})` }}>
      <polygon points={`${from},28 ${points.join(" ")} ${to},28`} fill="currentColor" opacity="0.12" />
      <polyline points={points.join(" ")} fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke" />
    </svg>
  );
}
