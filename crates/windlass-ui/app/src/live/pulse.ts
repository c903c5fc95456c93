/**
 * What tells the pages that something changed.
 *
 * While the socket is up, the broker says once a second how deep its queues are; a page asks again only when that differs from
 * the last time. Without it `pulse` beats by a timer. While nobody looks at the tab there is neither.
 */

import { signal } from "@preact/signals";

/** Counts up whenever lists may have changed. */
export const pulse = signal(0);

export type Link = "connecting" | "live" | "polling" | "paused";
export const linkState = signal<Link>("connecting");

/** The wall clock, for ages; it stands still while the tab is hidden. */
export const now = signal(Date.now());

export interface QueueDepth {
  queue: string;
  depths: Record<string, number>;
  oldest_pending_seconds?: number | null;
  paused: boolean;
}

export const depths = signal<QueueDepth[] | null>(null);

/** Totals since the store was made, as the broker sends them every second. */
export interface Sample {
  at: number;
  submitted_total: number;
  completed_total: number;
  failed_total: number;
  workers: number;
  running: number;
  pending: number;
  memory_bytes?: number | null;
}

/** The last few samples, oldest first. */
export const samples = signal<Sample[]>([]);
const SAMPLES_MAX = 6;

export function addSample(sample: Sample): void {
  samples.value = [...samples.peek(), sample].slice(-SAMPLES_MAX);
}

export function beat(): void {
  pulse.value += 1;
}

/** Per second over the last samples; nothing before there are two. */
export function perSecond(total: (sample: Sample) => number): number | undefined {
  const first = samples.value[0];
  const last = samples.value.at(-1);
  if (!first || !last || last.at <= first.at) return undefined;
  return Math.max(0, ((total(last) - total(first)) * 1000) / (last.at - first.at));
}
