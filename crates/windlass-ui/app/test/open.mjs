/**
 * How long the list of tasks takes to open when the store is full: `WINDLASS_BIN=… node test/open.mjs [tasks] [opens]`.
 * Every figure is the browser's own, in milliseconds since the navigation began. Nothing is kept from one open to the next.
 */

import { launch, open } from "./browser.mjs";
import { client, startBroker, work } from "./broker.mjs";

const [tasks = 1_000_000, opens = 10] = process.argv.slice(2).map(Number);
const FILTERS = ["state:dead_letter", "queue:q07", "type:kind.3 priority:>=200", "error:mailbox since:1h", "state:completed type:nothing"];
const BATCH = 1000;
/** So many batches are on their way at once. */
const WIDE = 4;

// A broker that runs already, and was filled the last time, saves the minute that filling takes.
const broker = process.env.WINDLASS_SERVER ? undefined : await startBroker("serve");
const url = process.env.WINDLASS_SERVER ?? broker.url;
await fill(client(url));
const browser = await launch();
try {
  const seen = [];
  for (let number = 0; number < opens; number += 1) seen.push(await cold());
  for (const name of Object.keys(seen[0])) row(`open: ${name}`, seen.map((it) => it[name]));
  await filters();
} finally {
  await browser.close();
  await broker?.stop();
}

async function fill({ get, post }) {
  const counts = Object.values((await get("/api/v1/stats")).tasks);
  if (counts.reduce((sum, count) => sum + count, 0) >= tasks) return;
  const task = (number) => ({
    type: `kind.${number % 10}`,
    queue: `q${String(number % 40).padStart(2, "0")}`,
    priority: [50, 100, 100, 200][number % 4],
    payload: { number, to: `user${number}@example.com` },
    ...(number % 5 === 0 ? { delay_seconds: 86_400 } : {}),
  });
  let next = 0;
  const lane = async () => {
    while (next < tasks) {
      const from = next;
      next += BATCH;
      await post("/api/v1/tasks/batch", { tasks: Array.from({ length: Math.min(BATCH, tasks - from) }, (_, at) => task(from + at)) });
    }
  };
  await Promise.all(Array.from({ length: WIDE }, lane));
  await work({ post }, { worker: "w1", queue: "q07", count: 300, judge: (it) => (it.payload.number % 3 ? undefined : `smtp: mailbox ${it.payload.number} is full`) });
}

/** Runs in the page: when rows of the list are first on the screen. */
function watch() {
  const looked = new MutationObserver(() => {
    if (!document.querySelector("tbody tr[data-row]")) return;
    looked.disconnect();
    requestAnimationFrame(() =>
      setTimeout(() => {
        globalThis.rowsAt = performance.now();
        console.debug("rows");
      }),
    );
  });
  looked.observe(document, { childList: true, subtree: true });
}

async function cold() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.addInitScript(watch);
  // Nothing of the test runs in the page meanwhile: it says by itself when it is done.
  await Promise.all([page.waitForEvent("console"), page.goto(`${url}/#/tasks`, { waitUntil: "commit" })]);
  const figures = await page.evaluate(() => {
    const [navigation] = performance.getEntriesByType("navigation");
    const list = performance.getEntriesByType("resource").find((it) => it.name.includes("/api/v1/tasks"));
    const script = performance.getEntriesByType("resource").find((it) => it.name.endsWith("/app.js"));
    return {
      "the page has come": navigation.responseEnd,
      "its script has come": script.responseEnd,
      "the list is asked for": list.startTime,
      "the list has come": list.responseEnd,
      "rows are on the screen": globalThis.rowsAt,
    };
  });
  await context.close();
  return figures;
}

/** From the change of the address to the answer on the screen. */
async function filters() {
  const { page, context } = await open(browser, url, "#/tasks");
  await page.locator("tbody tr[data-row]").first().waitFor();
  for (const filter of FILTERS) {
    const took = await page.evaluate(async (text) => {
      const began = performance.now();
      location.hash = `#/tasks?filter=${encodeURIComponent(text)}`;
      const answered = (it) => it.name.includes(`filter=${new URLSearchParams({ f: text }).toString().slice(2)}`) && it.startTime >= began;
      while (!performance.getEntriesByType("resource").some(answered) || document.querySelector("main .skeleton")) await new Promise(requestAnimationFrame);
      return performance.now() - began;
    }, filter);
    row(`filter: ${filter}`, [took]);
  }
  await context.close();
}

function row(name, values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))].toFixed(0).padStart(5);
  console.log(`${name.padEnd(46)} ${values.length > 1 ? `${at(0)} best ${at(0.5)} middle ${at(1)} worst` : at(0)}`);
}
