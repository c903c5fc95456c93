/** A real broker on private ports and a folder of its own, and a way to talk to it. */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ADDRESSES = ["--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--tcp-addr", "127.0.0.1:0"];

/** `mode` is `dev` (with the built-in worker) or `serve`. */
export async function startBroker(mode = "dev", folder = mkdtempSync(join(tmpdir(), "windlass-ui-"))) {
  const binary = process.env.WINDLASS_BIN;
  if (!binary) throw new Error("WINDLASS_BIN names no binary; `cargo xtask test` sets it");
  const child = spawn(binary, [mode, ...ADDRESSES, "--data-dir", join(folder, "data")], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stderr.on("data", (bytes) => (said += bytes));
  const [url, grpc] = await new Promise((resolve, reject) => {
    let text = "";
    child.stdout.on("data", (bytes) => {
      text += bytes;
      const http = /listening http (\S+)/.exec(text);
      const other = /listening grpc (\S+)/.exec(text);
      if (http && other) resolve([`http://${http[1]}`, `http://${other[1]}`]);
    });
    child.on("exit", (code) => reject(new Error(`the broker ended with ${code}: ${said}`)));
  });
  const end = async (signal) => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  };
  return {
    url,
    grpc,
    ...client(url),
    async stop() {
      await end("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
    /** The same broker after an orderly restart, at other addresses. */
    async restarted() {
      await end("SIGTERM");
      return startBroker(mode, folder);
    },
  };
}

export function client(url) {
  const ask = async (method, path, body) => {
    const response = await fetch(url + path, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  };
  return {
    ask,
    get: (path) => ask("GET", path),
    post: (path, body) => ask("POST", path, body),
    submit: (task) => ask("POST", "/api/v1/tasks", task),
    /** The task when it has ended. */
    ended: (id) => ask("GET", `/api/v1/tasks/${encodeURIComponent(id)}?wait=20s`),
  };
}

/** Takes the tasks of a queue as a worker would, and ends each as `judge` says: undefined completes it, a text fails it. */
export async function work({ post }, { worker, queue, count, judge = () => undefined }) {
  for (let left = count; left > 0; ) {
    const { tasks } = await post("/api/v1/claim", { worker_id: worker, queues: [queue], max: Math.min(left, 50), wait_seconds: 5 });
    if (tasks.length === 0) return;
    for (const task of tasks) {
      const error = judge(task);
      const path = `/api/v1/tasks/${encodeURIComponent(task.id)}`;
      if (error === undefined) await post(`${path}/complete`, { lease: task.lease, result: { ok: true } });
      else await post(`${path}/fail`, { lease: task.lease, error, retryable: false });
    }
    left -= tasks.length;
  }
}
