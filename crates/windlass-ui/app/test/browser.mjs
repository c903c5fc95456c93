/** A real Chromium, and pages that complain when anything is wrong on them. */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");
const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** Where a browser is, or nothing. */
export function browserPath() {
  const folders = (process.env.PATH ?? "").split(":");
  const found = NAMES.flatMap((name) => folders.map((folder) => `${folder}/${name}`)).find((path) => existsSync(path));
  return process.env.CHROMIUM ?? found;
}

export function launch() {
  // Tests run as root in containers, where the sandbox of the browser cannot start.
  return chromium.launch({ executablePath: browserPath(), args: ["--no-sandbox", "--disable-dev-shm-usage"] });
}

/** A page at an address of the dashboard; `mistakes` collects what the browser complains about. */
export async function open(browser, url, hash, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  const mistakes = [];
  page.on("pageerror", (error) => mistakes.push(error.message));
  page.on("console", (message) => {
    // A refusal of the broker is told as a failed resource; pages show it in words of their own.
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) mistakes.push(message.text());
  });
  await page.goto(`${url}/${hash}`);
  return { page, context, mistakes };
}

/** When everything that was asked for has come. */
export async function settled(page) {
  await page.waitForFunction(() => document.querySelector("h1") !== null && document.querySelector("main .skeleton") === null);
}

/** What axe calls serious or critical. */
export async function violations(page) {
  // The policy of the page allows no script of ours, so it comes by the debugger.
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.filter((it) => it.impact === "serious" || it.impact === "critical").map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(" ").slice(0, 300)}`);
}

/** Waits until a question has the wanted answer, asking again and again. */
export async function until(what, question, wanted) {
  const deadline = Date.now() + 15_000;
  for (;;) {
    const answer = await question();
    if (answer === wanted) return;
    assert.ok(Date.now() < deadline, `${what}: ${JSON.stringify(answer)}, not ${JSON.stringify(wanted)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
