/**
 * A shop's worth of work for a running broker, until it is interrupted: `node test/demo.mjs http://127.0.0.1:8080`.
 * For looking at the dashboard with something in it, and for the pictures in the documentation.
 */

import { client } from "./broker.mjs";

const broker = client(process.argv[2] ?? "http://127.0.0.1:8080");
const { submit } = broker;

/** A broker that is restarted meanwhile is waited for. */
async function ask(method, path, body) {
  for (;;) {
    try {
      return await broker.ask(method, path, body);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      await rest(500);
    }
  }
}
const post = (path, body) => ask("POST", path, body);

const pick = (list) => list[Math.floor(Math.random() * list.length)];
const between = (low, high) => low + Math.floor(Math.random() * (high - low));
const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const KINDS = [
  { type: "email.send", queue: "mail", weight: 8, ms: 8, payload: () => ({ to: `user${between(1, 9999)}@example.com`, template: pick(["welcome", "receipt", "reset"]), locale: pick(["en", "de", "fr"]) }), errors: ["smtp: 451 mailbox {n} is busy, try again later", "smtp: connection to mx{n}.example.com:25 timed out after 10 s"] },
  { type: "image.resize", queue: "media", weight: 5, ms: 25, payload: () => ({ source: `s3://uploads/${between(1000, 9999)}.jpg`, sizes: [64, 256, 1024] }), errors: ["decode: unexpected end of JPEG data at byte {n}"] },
  { type: "invoice.render", queue: "billing", weight: 2, ms: 30, payload: () => ({ invoice: between(10_000, 99_999), currency: "EUR" }), errors: ["ledger: invoice {n} has no line items"] },
  { type: "webhook.deliver", queue: "webhooks", weight: 6, ms: 12, payload: () => ({ url: `https://hooks.example.com/${between(1, 400)}`, event: pick(["order.paid", "order.shipped"]) }), errors: ["POST https://hooks.example.com/{n}: 503 Service Unavailable", "POST https://hooks.example.com/{n}: certificate has expired"] },
  { type: "search.index", queue: "default", weight: 6, ms: 5, payload: () => ({ document: between(1, 1_000_000) }), errors: [] },
];
const TENANTS = ["acme", "acme", "globex", "initech", undefined, undefined];
const BAG = KINDS.flatMap((kind) => Array.from({ length: kind.weight }, () => kind));

async function setUp() {
  const schedules = [
    ["nightly-report", "0 2 * * *", "report.build", "Europe/Berlin"],
    ["sync-inventory", "@every 20s", "inventory.sync", "UTC"],
    ["rotate-keys", "0 4 * * SUN", "keys.rotate", "UTC"],
    ["digest-mail", "30 7 * * MON-FRI", "email.digest", "America/New_York"],
  ];
  for (const [id, cron, type, timezone] of schedules) await ask("PUT", `/api/v1/schedules/${id}`, { cron, timezone, task: { type, queue: "reports" } });
  await post("/api/v1/schedules/rotate-keys/pause");
  const limits = {
    "queue/webhooks": { max_concurrency: 8, rate: { count: 200, per_seconds: 1 } },
    "queue/reports": { ageing: { every_seconds: 10 } },
    "type/image.resize": { max_concurrency: 6 },
    "type/invoice.render": { rate: { count: 30, per_seconds: 60 }, max_depth: 10_000 },
    "type/report.publish": { paused: true },
    "key/acme": { weight: 5, max_concurrency: 12 },
    "key/globex": { max_concurrency: 4, max_depth: 2000 },
    "key/initech": { rate: { count: 100, per_seconds: 60 } },
    "key/umbrella": { paused: true },
  };
  for (const [name, limit] of Object.entries(limits)) await ask("PUT", `/api/v1/limits/${name}`, limit);
  const step = (type, after = []) => ({ type, queue: "pipeline", after, max_retries: 0 });
  for (const id of ["import-2031-w06", "import-2031-w07", `import-${Date.now() % 100_000}`]) {
    const tasks = {
      fetch_orders: step("shop.fetch"),
      fetch_stock: step("shop.fetch"),
      fetch_prices: step("shop.fetch"),
      clean_orders: step("rows.clean", ["fetch_orders"]),
      clean_stock: step("rows.clean", ["fetch_stock"]),
      join: step("rows.join", ["clean_orders", "clean_stock", "fetch_prices"]),
      forecast: step("model.run", ["join"]),
      anomalies: step("model.run", ["join"]),
      totals: step("rows.sum", ["join"]),
      report: step("report.build", ["forecast", "anomalies", "totals"]),
      publish: step("report.publish", ["report"]),
    };
    await post("/api/v1/workflows", { id, tasks, then: { type: "email.send", queue: "pipeline" } }).catch(() => undefined);
  }
}

async function produce() {
  for (let beat = 0; ; beat += 1) {
    // A slow tide with small waves, so that the charts have something to say.
    const wave = 14 + 9 * Math.sin(beat / 90) + 4 * Math.sin(beat / 17) + Math.random() * 4;
    const tasks = Array.from({ length: Math.max(2, Math.round(wave)) }, () => {
      const kind = pick(BAG);
      return { type: kind.type, queue: kind.queue, key: pick(TENANTS), payload: kind.payload(), priority: pick([50, 100, 100, 100, 200]), max_retries: pick([0, 1, 3]), retry: { policy: "exponential", initial_ms: 800, factor: 2, max_ms: 20_000, jitter: 0.1 } };
    });
    if (beat % 15 === 0) tasks.push({ type: "report.build", queue: "reports", delay_seconds: between(600, 7200), payload: { month: between(1, 13) } });
    await post("/api/v1/tasks/batch", { tasks });
    await rest(500);
  }
}

async function worker(name, queues, slots) {
  const incarnation = between(1, 2 ** 40);
  const held = new Map();
  const beat = () =>
    post(`/api/v1/workers/${name}/heartbeat`, { incarnation, host: name.replace(/-\d+$/, ".internal"), pid: between(2000, 2100), version: "1.8.2", queues, types: null, slots, cpu: 0.2 + Math.random() * 0.5, memory_bytes: between(9e7, 15e7), leases: [...held].map(([id, lease]) => ({ id, lease })) }).catch(() => undefined);
  await beat();
  setInterval(beat, 4000);
  const run = async (task) => {
    const path = `/api/v1/tasks/${encodeURIComponent(task.id)}`;
    const kind = KINDS.find((it) => it.type === task.type);
    await rest((kind?.ms ?? 900) * (0.4 + 3 * Math.random() ** 4));
    const errors = kind?.errors ?? [];
    if (errors.length > 0 && Math.random() < (task.attempts > 1 ? 0.7 : 0.05)) {
      await post(`${path}/fail`, { lease: task.lease, error: pick(errors).replace("{n}", String(between(100, 999))), retryable: true });
    } else if (task.id === "import-2031-w07:anomalies") await post(`${path}/fail`, { lease: task.lease, error: "model: 3 of 12 columns are missing", retryable: false });
    else await post(`${path}/complete`, { lease: task.lease, result: { took_ms: between(3, 90) } });
    held.delete(task.id);
  };
  for (;;) {
    const { tasks } = await post("/api/v1/claim", { worker_id: name, queues, max: Math.max(1, slots - held.size), wait_seconds: 5 });
    for (const task of tasks) {
      held.set(task.id, task.lease);
      run(task).catch(() => held.delete(task.id));
    }
    if (held.size >= slots) await rest(20);
  }
}

await setUp();
for (let number = 0; number < 30; number += 1) await submit({ type: "video.transcode", queue: "media-gpu", payload: { film: number } });
await post("/api/v1/operations", { action: "set_priority", priority: "high", filter: "type:video.transcode", by: "ops" });
await Promise.all([
  produce(),
  worker("eu-west-1", ["mail", "default"], 16),
  worker("eu-west-2", ["mail", "webhooks", "default"], 16),
  worker("us-east-1", ["media", "billing", "webhooks"], 12),
  worker("batch-1", ["reports", "pipeline"], 4),
]);
