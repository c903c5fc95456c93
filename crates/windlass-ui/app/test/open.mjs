/**
 * How long the list of tasks takes to open when the store is full: `WINDLASS_BIN=… npm run open [tasks] [opens]`.
 * Figures only, in milliseconds; what does not depend on the machine is held by `open.test.mjs`.
 */

import { launch, open } from "./browser.mjs";
import { client, startBroker } from "./broker.mjs";
import { cold, fill } from "./many.mjs";

const [tasks = 1_000_000, opens = 10] = process.argv.slice(2).map(Number);
const FILTERS = ["state:dead_letter", "queue:q07", "type:kind.3 priority:>=200", "error:mailbox since:1h", "state:completed type:nothing"];

// A broker that runs already, and was filled the last time, saves the minute that filling takes.
const broker = process.env.WINDLASS_SERVER ? undefined : await startBroker("serve");
const url = process.env.WINDLASS_SERVER ?? broker.url;
await fill(client(url), tasks, 300);
const browser = await launch();
try {
  const seen = [];
  for (let number = 0; number < opens; number += 1) seen.push(figures(await cold(browser, url, "#/tasks")));
  for (const name of Object.keys(seen[0])) row(`open: ${name}`, seen.map((it) => it[name]));
  await filters();
} finally {
  await browser.close();
  await broker?.stop();
}

function figures({ rowsAt, document, files }) {
  const file = (part) => files.find((it) => it.name.includes(part));
  return {
    "the page has come": document.responseEnd,
    "its script has come": file("/app.js").responseEnd,
    "the list is asked for": file("/api/v1/tasks").startTime,
    "the list has come": file("/api/v1/tasks").responseEnd,
    "rows are on the screen": rowsAt,
  };
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
