/** The live connection: one socket for the whole page, which comes back by itself and resumes where it was. */

import { addSample, beat, depths, linkState, now, samples, type QueueDepth, type Sample } from "./pulse";

interface Envelope {
  id?: number;
  type: string;
  timestamp: string;
  data: unknown;
}

const TYPES = [
  "queue.depth",
  "system.metrics",
  "queue.paused",
  "queue.resumed",
  "worker.joined",
  "worker.left",
  "worker.paused",
  "worker.resumed",
];
const POLL_MS = 2000;
const BACK_OFF_MS = [500, 1000, 2000, 5000, 15_000];
/** However much happens to a task, its page asks no more often than this. */
const TASK_REST_MS = 700;
/** A glance at another tab does not end the connection. */
const HIDDEN_MS = 5000;
/** Something in between may take a connection and never open it. */
const OPENING_MS = 4000;
/** The broker speaks every second; a connection this silent is a broken one that nobody told us of. */
const SILENT_MS = 15_000;

let socket: WebSocket | undefined;
let lastId: number | undefined;
let failures = 0;
let retry: number | undefined;
let poll: number | undefined;
let hiding: number | undefined;
let lastDepths = "";
let lastTotals = "";
let heardAt = 0;

export function start(): void {
  connect();
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
    if (linkState.peek() === "live" && Date.now() - heardAt > SILENT_MS) drop();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = window.setTimeout(pause, HIDDEN_MS);
    else if (linkState.peek() === "paused") resume();
  });
  addEventListener("online", () => {
    if (linkState.peek() === "polling") connect();
  });
}

function pause(): void {
  linkState.value = "paused";
  clearTimeout(retry);
  clearInterval(poll);
  poll = undefined;
  const open = socket;
  socket = undefined;
  open?.close();
  samples.value = [];
}

function resume(): void {
  linkState.value = "connecting";
  now.value = Date.now();
  beat();
  connect();
}

export function address(query: Record<string, string>): string {
  const at = new URL("ws", location.href.split("#")[0]);
  at.protocol = at.protocol === "https:" ? "wss:" : "ws:";
  for (const [name, value] of Object.entries(query)) at.searchParams.set(name, value);
  return at.href;
}

function connect(): void {
  clearTimeout(retry);
  const before = socket;
  socket = undefined;
  before?.close();
  const query: Record<string, string> = { type: TYPES.join(",") };
  if (lastId !== undefined) query.last_id = String(lastId);
  const opened = new WebSocket(address(query));
  socket = opened;
  const opening = setTimeout(() => {
    if (socket === opened && opened.readyState === WebSocket.CONNECTING) drop();
  }, OPENING_MS);
  opened.onopen = () => {
    clearTimeout(opening);
    if (socket !== opened) return opened.close();
    failures = 0;
    heardAt = Date.now();
    clearInterval(poll);
    poll = undefined;
    linkState.value = "live";
    beat();
  };
  opened.onmessage = (message) => {
    if (socket === opened && typeof message.data === "string") hear(message.data);
  };
  opened.onclose = () => {
    if (socket === opened) lost();
  };
}

/** Gives up a connection that does not end by itself. */
function drop(): void {
  const open = socket;
  lost();
  open?.close();
}

/** Pages stay fresh by asking now and then, until the socket is back. */
function lost(): void {
  socket = undefined;
  linkState.value = "polling";
  samples.value = [];
  poll ??= window.setInterval(beat, POLL_MS);
  const wait = BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)] ?? 15_000;
  failures += 1;
  retry = window.setTimeout(connect, wait * (0.75 + Math.random() / 2));
}

function hear(text: string): void {
  heardAt = Date.now();
  let event: Envelope;
  try {
    event = JSON.parse(text) as Envelope;
  } catch {
    return;
  }
  if (typeof event.id === "number") lastId = event.id;
  switch (event.type) {
    case "queue.depth": {
      const queues = (event.data as { queues?: QueueDepth[] }).queues ?? [];
      depths.value = queues;
      // Ages grow by themselves: only a count or a pause is news.
      const seen = JSON.stringify(queues.map((it) => [it.queue, it.depths, it.paused]));
      if (seen !== lastDepths) beat();
      lastDepths = seen;
      break;
    }
    case "system.metrics": {
      const sample = event.data as Omit<Sample, "at">;
      addSample({ ...sample, at: Date.parse(event.timestamp) });
      // The depths are those of the deepest queues only: what happens in others shows in the totals.
      const totals = Object.entries(sample).filter(([name]) => name.endsWith("_total") || name === "running" || name === "pending");
      const seen = JSON.stringify(totals);
      if (seen !== lastTotals) beat();
      lastTotals = seen;
      break;
    }
    default:
      // A gap too: something was missed, so everything is asked for again.
      beat();
  }
}

/** Calls back on every event of a task, while the returned function has not been called. */
export function watchTask(id: string, heard: () => void): () => void {
  let open: WebSocket | undefined;
  let again: number | undefined;
  let tries = 0;
  let ended = false;
  let toldAt = 0;
  let telling: number | undefined;
  const tell = (): void => {
    clearTimeout(telling);
    const rest = toldAt + TASK_REST_MS - Date.now();
    if (rest > 0) {
      telling = window.setTimeout(tell, rest);
      return;
    }
    toldAt = Date.now();
    heard();
  };
  const connectOne = (): void => {
    if (ended || document.hidden) return;
    const opened = new WebSocket(address({ task: id }));
    open = opened;
    opened.onopen = () => {
      tries = 0;
      tell();
    };
    opened.onmessage = tell;
    opened.onclose = () => {
      if (open !== opened) return;
      open = undefined;
      again = window.setTimeout(connectOne, BACK_OFF_MS[Math.min(tries, BACK_OFF_MS.length - 1)]);
      tries += 1;
    };
  };
  const leave = (): void => {
    clearTimeout(again);
    clearTimeout(telling);
    const left = open;
    open = undefined;
    left?.close();
  };
  const shown = (): void => {
    clearTimeout(again);
    if (document.hidden) leave();
    else if (!open) connectOne();
  };
  document.addEventListener("visibilitychange", shown);
  connectOne();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", shown);
    leave();
  };
}
