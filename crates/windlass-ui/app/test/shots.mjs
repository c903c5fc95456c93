/**
 * Pictures of every page, in both themes and on a narrow screen: `node test/shots.mjs URL FOLDER [page…]`.
 * For people who change how the dashboard looks, and for the documentation.
 */

import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { client } from "./broker.mjs";

const [url = "http://127.0.0.1:8080", folder = "shots", ...only] = process.argv.slice(2);
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
  workflows: "#/workflows",
  workflow: "#/workflows/import-2031-w07",
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
    if (!hash || (only.length > 0 && !only.includes(name))) continue;
    await page.goto(`${url}/${hash}`);
    await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector("main .skeleton"), undefined, { timeout: 10_000 }).catch(() => console.log(`${screen} ${name}: still loading`));
    await page.waitForTimeout(name === "overview" ? 1500 : 300);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) console.log(`${screen} ${name}: ${wide} px too wide`);
    await page.screenshot({ path: `${folder}/${name}-${screen}.png` });
  }
  await page.close();
}
await browser.close();
