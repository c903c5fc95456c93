// Drives BullMQ. Roles: submit, fill and pace are producers that print one line of JSON when they have ended; work is a worker
// that runs until it is stopped.
import { openSync, writeSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    cold: { type: 'boolean' },
    ...Object.fromEntries(
      ['port', 'connections', 'batch', 'seconds', 'count', 'rate', 'latencies'].map((name) => [name, { type: 'string' }]),
    ),
  },
});
const number = (name) => Number(given[name] ?? 0);
const now = () => performance.timeOrigin + performance.now();

const PAYLOAD_BYTES = 200;
const AHEAD_MAX = 64;
// A finished job is deleted, as in the other queues.
const JOB = { removeOnComplete: true };

function payload(at) {
  const text = JSON.stringify({ at: Math.round(at * 1000).toString().padStart(16, '0'), data: '' });
  return { ...JSON.parse(text), data: 'x'.repeat(PAYLOAD_BYTES - text.length) };
}

const connect = () => new Redis({ port: number('port'), maxRetriesPerRequest: null });

async function queues(count) {
  const made = Array.from({ length: count }, () => new Queue('bench', { connection: connect() }));
  await Promise.all(made.map((queue) => queue.waitUntilReady()));
  return made;
}

const send = (queue, batch, at = 0) =>
  batch === 1
    ? queue.add('task', payload(at), JOB)
    : queue.addBulk(Array.from({ length: batch }, () => ({ name: 'task', data: payload(at), opts: JOB })));

function report(operations, began, cpu, latencies = []) {
  const used = process.cpuUsage(cpu);
  latencies.sort((a, b) => a - b);
  const at = (share) => latencies[Math.max(0, Math.ceil(latencies.length * share) - 1)] ?? 0;
  console.log(
    JSON.stringify({
      operations,
      seconds: (now() - began) / 1000,
      cpu_seconds: (used.user + used.system) / 1e6,
      latency: { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1) },
    }),
  );
}

async function submit() {
  const batch = number('batch');
  const producers = await queues(number('connections'));
  if (!given.cold) await Promise.all(producers.map((queue) => send(queue, 1)));
  const [began, cpu, latencies] = [now(), process.cpuUsage(), []];
  const until = began + number('seconds') * 1000;
  const loop = async (queue) => {
    for (let sent = now(); sent < until; ) {
      await send(queue, batch);
      const done = now();
      latencies.push(done - sent);
      sent = done;
    }
  };
  await Promise.all(producers.map(loop));
  report(latencies.length * batch, began, cpu, latencies);
}

async function fill() {
  const [queue] = await queues(1);
  const [began, cpu, count] = [now(), process.cpuUsage(), number('count')];
  const until = began + number('seconds') * 1000;
  let done = 0;
  while (done < count && (done === 0 || now() < until)) {
    const next = Math.min(1000, count - done);
    await send(queue, next);
    done += next;
  }
  report(done, began, cpu);
}

async function pace() {
  const [queue] = await queues(1);
  const [cpu, rate] = [process.cpuUsage(), number('rate')];
  const began = now() + 100;
  const total = Math.round(rate * number('seconds'));
  const sent = [];
  while (sent.length < total) {
    const due = began + (sent.length * 1000) / rate;
    if (now() < due) await new Promise((resolve) => setTimeout(resolve, Math.max(1, due - now())));
    sent.push(send(queue, 1, due));
    if (sent.length > AHEAD_MAX) await sent[sent.length - AHEAD_MAX];
  }
  await Promise.all(sent);
  report(total, began, cpu);
}

async function work() {
  const file = given.latencies ? openSync(given.latencies, 'a') : undefined;
  const start = async (job) => {
    if (file !== undefined) writeSync(file, `${Math.max(0, Math.round(now() * 1000 - Number(job.data.at)))}\n`);
  };
  const worker = new Worker('bench', start, { connection: connect(), concurrency: number('connections') });
  process.once('SIGTERM', () => process.exit(0));
  await worker.waitUntilReady();
  await new Promise(() => {});
}

await { submit, fill, pace, work }[positionals[0]]();
process.exit(0);
