/** A submit as something that can be pasted into a shell. Payloads stay the text that they were. */

import { quoted, rawField } from "../api/json";
import type { Task } from "../api/types";

export interface Submission {
  type: string;
  queue: string;
  /** JSON text. */
  payload: string;
  payloadBase64?: string;
  priority: number | string;
  maxRetries: number;
  timeoutSeconds: number;
  delaySeconds?: number;
  key?: string;
  uniqueKey?: string;
  metadata: Record<string, string>;
}

/** The task as it was submitted, but for what belongs to that one run: its id, times and dependencies. */
export function submission(task: Task, text: string): Submission {
  const { traceparent: _trace, tracestate: _state, ...metadata } = task.metadata ?? {};
  const again: Submission = {
    type: task.type,
    queue: task.queue,
    payload: rawField(text, "payload") ?? "null",
    priority: task.priority,
    maxRetries: task.max_retries,
    timeoutSeconds: task.timeout_seconds,
    metadata,
  };
  if (task.payload_base64 !== undefined) again.payloadBase64 = task.payload_base64;
  if (task.key !== undefined) again.key = task.key;
  if (task.unique_key !== undefined) again.uniqueKey = task.unique_key;
  return again;
}

/** The body of `POST /api/v1/tasks`; written by hand around the payload, which must not be read and written again. */
export function body(it: Submission): string {
  const fields: [string, unknown][] = [
    ["type", it.type],
    ["queue", it.queue],
    ["priority", it.priority],
    ["max_retries", it.maxRetries],
    ["timeout_seconds", it.timeoutSeconds],
    ["delay_seconds", it.delaySeconds],
    ["key", it.key],
    ["unique_key", it.uniqueKey],
    ["payload_base64", it.payloadBase64],
    ["metadata", Object.keys(it.metadata).length > 0 ? it.metadata : undefined],
  ];
  const parts = fields.filter(([, value]) => value !== undefined).map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  if (it.payloadBase64 === undefined) parts.push(`"payload":${it.payload}`);
  return `{${parts.join(",")}}`;
}

export function asCurl(it: Submission): string {
  const to = new URL("api/v1/tasks", location.href.split("#")[0]).href;
  return `curl -sS ${quoted(to)} -H 'content-type: application/json' -d ${quoted(body(it))}`;
}

export function asCli(it: Submission): string {
  const words = ["windlass submit", quoted(it.type)];
  if (it.payloadBase64 === undefined) words.push(quoted(it.payload));
  words.push("--queue", quoted(it.queue), "--priority", String(it.priority));
  words.push("--max-retries", String(it.maxRetries), "--timeout", `${it.timeoutSeconds}s`);
  if (it.delaySeconds) words.push("--delay", `${it.delaySeconds}s`);
  if (it.key) words.push("--key", quoted(it.key));
  if (it.uniqueKey) words.push("--unique-key", quoted(it.uniqueKey));
  for (const [name, value] of Object.entries(it.metadata)) words.push("--metadata", quoted(`${name}=${value}`));
  if (it.payloadBase64 === undefined) return words.join(" ");
  // Bytes come on standard input.
  return `base64 -d <<< ${it.payloadBase64} | ${words.join(" ").replace("windlass submit", "windlass submit --binary")} -`;
}
