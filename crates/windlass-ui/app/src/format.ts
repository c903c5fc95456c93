/** Numbers and times for people. */

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: number): string {
  return whole.format(value);
}

/** 1,234 as it is, 1,234,567 as 1.2M. */
export function compact(value: number): string {
  return value < 100_000 ? whole.format(value) : short.format(value);
}

export function rate(value: number): string {
  if (value === 0) return "0";
  if (value < 10) return value.toFixed(value < 0.1 ? 2 : 1);
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
  if (s < 10) return `${s.toFixed(1)} s`;
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

const moment = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

export function exactly(at: string): string {
  const ms = Date.parse(at);
  return Number.isNaN(ms) ? at : moment.format(ms);
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
});

/** The time of day to the millisecond. */
export function timeOfDay(at: string): string {
  return clock.format(Date.parse(at));
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
