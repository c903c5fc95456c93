/** Numbers and times for people. */

/** A formatter takes milliseconds to make, more than a list of tasks takes to draw: each is made when it is first used. */
export function lazy<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

/** 1,234,567: always with commas, as everywhere in the documentation. */
export function count(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** 1,234 as it is, 1,234,567 as 1.2M. */
export function compact(value: number): string {
  if (value < 100_000) return count(value);
  const [size, unit] = value < 1e6 ? [1e3, "K"] : value < 1e9 ? [1e6, "M"] : [1e9, "B"];
  return `${short(value / size, 1)}${unit}`;
}

/** 1.5 and 2, not 2.0. */
function short(value: number, digits: number): string {
  return value.toFixed(digits).replace(/\.0+$/, "");
}

export function rate(value: number): string {
  if (value === 0) return "0";
  if (value < 10) return short(value, value < 0.1 ? 2 : 1);
  return compact(value);
}

export function percent(value: number): string {
  if (value > 0 && value < 0.001) return "<0.1 %";
  return `${(value * 100).toFixed(value >= 0.1 || value === 0 ? 0 : 1)} %`;
}

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let left = value;
  while (left >= 1000 && at < units.length - 1) {
    left /= 1000;
    at += 1;
  }
  return `${left < 10 && at > 0 ? left.toFixed(1) : Math.round(left)} ${units[at]}`;
}

export function span(ms: number): string {
  if (ms < 1) return ms <= 0 ? "0 ms" : `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${short(s, 1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return Math.floor(s % 60) ? `${m} m ${Math.floor(s % 60)} s` : `${m} m`;
  const h = Math.floor(m / 60);
  if (h < 24) return m % 60 ? `${h} h ${m % 60} m` : `${h} h`;
  const d = Math.floor(h / 24);
  return h % 24 ? `${d} d ${h % 24} h` : `${d} d`;
}

/** "3 m ago", "in 2 h". */
export function distance(at: string, now: number): string {
  const ms = Date.parse(at) - now;
  if (Math.abs(ms) < 1500) return "now";
  const text = roughly(Math.abs(ms));
  return ms > 0 ? `in ${text}` : `${text} ago`;
}

function roughly(ms: number): string {
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

const moment = lazy(
  () =>
    new Intl.DateTimeFormat(undefined, {
      year: "numeric",
      month: "short",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
    }),
);

export function exactly(at: string): string {
  const ms = Date.parse(at);
  return Number.isNaN(ms) ? at : moment().format(ms);
}

const clock = lazy(
  () =>
    new Intl.DateTimeFormat(undefined, {
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      fractionalSecondDigits: 3,
      hourCycle: "h23",
    }),
);

/** The time of day to the millisecond. */
export function timeOfDay(at: string): string {
  return clock().format(Date.parse(at));
}

export function priorityClass(value: number): string {
  if (value >= 225) return "critical";
  if (value >= 200) return "high";
  return value >= 100 ? "normal" : "low";
}

export function stateLabel(state: string): string {
  return state === "dead_letter" ? "dead letter" : state;
}

/** The end of a long id says more than its beginning: ids that carry a time begin alike. */
export function shortId(id: string): string {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(id) ? `…${id.slice(-12)}` : id;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Attempts whose worker was lost count towards another limit, so they are left out here. */
export function attemptsOf(task: { attempts: number; crashes: number; max_retries: number }): string {
  return `${Math.max(0, task.attempts - task.crashes)} of ${task.max_retries + 1}`;
}
