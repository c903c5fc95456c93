/**
 * Pictures of every page, in both themes and on a narrow screen: `node test/shots.mjs URL FOLDER [page…]`.
 * For people who change how the dashboard looks; with `--docs` those of the README and of docs/dashboard.md, under their names.
 */

import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { client } from "./broker.mjs";

const docs = process.argv.includes("--docs");
const [url = "http://127.0.0.1:8080", folder = "shots", ...only] = process.argv.slice(2).filter((word) => word !== "--docs");
/** Pictures of the documentation, and in which theme. */
const DOCS = { overview: "dark", task: "light", dead: "light", workflow: "dark" };
const api = client(process.env.WINDLASS_SERVER ?? url);
mkdirSync(folder, { recursive: true });

const dead = (await api.get("/api/v1/tasks?filter=state:dead_letter&limit=50")).items;
const tried = dead.sort((a, b) => b.attempts - a.attempts)[0];
const waiting = (await api.get("/api/v1/tasks?filter=state:pending&limit=1")).items[0];
const PAGES = {
  overview: "#/",
  queues: "#/queues",
  queue: "#/queues/webhooks",
  tasks: "#/tasks",
  filtered: "#/tasks?filter=state%3Adead_letter%20type%3Aemail.*",
  mistake: "#/tasks?filter=stat%3Adead",
  task: tried && `#/tasks/${tried.id}`,
  waiting: waiting && `#/tasks/${waiting.id}`,
  dead: "#/dead",
  schedules: "#/schedules",
  schedule: "#/schedules/sync-inventory",
  "schedule-form": "#/schedule?edit=nightly-report",
  workflows: "#/workflows",
  workflow: "#/workflows/import-2031-w07",
  limits: "#/limits",
  workers: "#/workers",
  operations: "#/operations",
  submit: tried && `#/submit?from=${tried.id}`,
};
const SCREENS = {
  light: { colorScheme: "light", viewport: { width: 1280, height: 800 } },
  dark: { colorScheme: "dark", viewport: { width: 1280, height: 800 } },
  narrow: { colorScheme: "light", viewport: { width: 400, height: 800 } },
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
for (const [screen, options] of Object.entries(SCREENS)) {
  const page = await browser.newPage(options);
  page.on("pageerror", (error) => console.log(screen, page.url(), error.message));
  page.on("console", (message) => message.type() === "error" && !/404|WebSocket/.test(message.text()) && console.log(screen, message.text()));
  for (const [name, hash] of Object.entries(PAGES)) {
    if (!hash || (only.length > 0 && !only.includes(name)) || (docs && DOCS[name] !== screen)) continue;
    await page.goto(`${url}/${hash}`);
    await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector("main .skeleton"), undefined, { timeout: 10_000 }).catch(() => console.log(`${screen} ${name}: still loading`));
    await page.locator(".link.live").waitFor({ state: "attached" }).catch(() => console.log(`${screen} ${name}: not live`));
    await page.waitForTimeout(name === "overview" ? 2500 : 300);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) console.log(`${screen} ${name}: ${wide} px too wide`);
    await page.screenshot({ path: `${folder}/${docs ? `dashboard-${name}` : `${name}-${screen}`}.png` });
  }
  await page.close();
}
await browser.close();
