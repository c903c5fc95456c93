/** A store with many tasks in it, and what the list of them takes to open: for `open.mjs` and `open.test.mjs`. */

import { work } from "./broker.mjs";

const BATCH = 1000;
/** So many batches are on their way at once. */
const WIDE = 4;

const task = (number) => ({
  type: `kind.${number % 10}`,
  queue: `q${String(number % 40).padStart(2, "0")}`,
  priority: [50, 100, 100, 200][number % 4],
  payload: { number, to: `user${number}@example.com` },
  ...(number % 5 === 0 ? { delay_seconds: 86_400 } : {}),
});

/** Until there are so many tasks, of which `ended` came to an end, a third of them badly. */
export async function fill({ get, post }, tasks, ended) {
  const counts = Object.values((await get("/api/v1/stats")).tasks);
  let next = counts.reduce((sum, count) => sum + count, 0);
  if (next >= tasks) return;
  const lane = async () => {
    while (next < tasks) {
      const from = next;
      next += BATCH;
      await post("/api/v1/tasks/batch", { tasks: Array.from({ length: Math.min(BATCH, tasks - from) }, (_, at) => task(from + at)) });
    }
  };
  await Promise.all(Array.from({ length: WIDE }, lane));
  await work({ post }, { worker: "w1", queue: "q07", count: ended, judge: (it) => (it.payload.number % 3 ? undefined : `smtp: mailbox ${it.payload.number} is full`) });
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

/** Opens a page that nothing is known of yet, up to its first rows. Every figure is the browser's own, in ms since the navigation began. */
export async function cold(browser, url, hash) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const asked = [];
  page.on("request", (request) => asked.push(request.url()));
  await page.addInitScript(watch);
  // Nothing of the test runs in the page meanwhile: it says by itself when it is done.
  await Promise.all([page.waitForEvent("console"), page.goto(`${url}/${hash}`, { waitUntil: "commit" })]);
  const seen = await page.evaluate(() => {
    const plain = ({ name, startTime, responseEnd, encodedBodySize }) => ({ name, startTime, responseEnd, bytes: encodedBodySize });
    const [document_] = performance.getEntriesByType("navigation").map(plain);
    const files = performance.getEntriesByType("resource").map(plain);
    return { rowsAt: globalThis.rowsAt, document: document_, files, rows: document.querySelectorAll("tbody tr[data-row]").length };
  });
  await context.close();
  return { ...seen, asked };
}
