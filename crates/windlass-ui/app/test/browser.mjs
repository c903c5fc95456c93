/** A real Chromium, and pages that complain when anything is wrong on them. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");
/** Much longer than anything here takes, on a machine that has other things to do. */
export const PATIENCE_MS = 60_000;
/** For a browser to begin: another one is begun then. */
const START_MS = 30_000;
/** For it to end. */
const END_MS = 10_000;
const NAMES = ["chromium", "chromium-browser", "google-chrome"];

/** Where a browser is, or nothing. */
export function browserPath() {
  const folders = (process.env.PATH ?? "").split(":");
  const found = NAMES.flatMap((name) => folders.map((folder) => `${folder}/${name}`)).find((path) => existsSync(path));
  return process.env.CHROMIUM ?? found;
}

// Tests run as root in containers, where the sandbox of the browser cannot start.
const ARGS = ["--no-sandbox", "--disable-dev-shm-usage"];

export function launch() {
  return chromium.launch({ executablePath: browserPath(), args: ARGS });
}

/** A window with tabs of which one is in front, as people have it: elsewhere every page is told that it is the one. */
export async function launchWindow() {
  // Now and then a browser that has just begun says nothing, or does not answer who connects to it: then another one is begun.
  for (let left = 3; ; left -= 1) {
    const { child, ended, folder, said } = startWindow();
    const close = async () => {
      child.kill();
      // One that hangs does not hear that it is asked to end.
      await within(END_MS, "the browser ends", ended).catch(() => child.kill("SIGKILL"));
      await ended;
      // Processes that it has left may still be writing there; what stays of it is in the folder for such things.
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }).catch(() => {});
    };
    try {
      const address = await within(START_MS, "the browser says where it listens", said);
      const browser = await chromium.connectOverCDP(address, { noDefaults: true, timeout: START_MS });
      const window = browser.contexts()[0];
      // A tab that answers: what comes after has a browser that works.
      await within(START_MS, "a first tab opens", window.newPage().then((page) => page.close()));
      return { window, close: () => within(START_MS, "the browser lets go", browser.close()).finally(close) };
    } catch (error) {
      await close();
      if (left === 1) throw error;
    }
  }
}

/** What a promise comes to, if that is soon enough. */
async function within(ms, what, promise) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${what}`)), ms)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function startWindow() {
  const folder = mkdtempSync(join(tmpdir(), "windlass-window-"));
  const child = spawn(browserPath(), [...ARGS, "--headless", "--window-size=1400,900", "--remote-debugging-port=0", `--user-data-dir=${folder}`], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const said = new Promise((resolve, reject) => {
    let text = "";
    child.stderr.on("data", (bytes) => {
      text += bytes;
      const found = /DevTools listening on (\S+)/.exec(text);
      if (found) resolve(found[1]);
    });
    child.once("exit", (code) => reject(new Error(`the browser ended with ${code}: ${text}`)));
  });
  // Who gave up on it does not want to hear of its end.
  said.catch(() => {});
  return { child, ended, folder, said };
}

/** A page at an address of the dashboard; `mistakes` collects what the browser complains about. */
export async function open(browser, url, hash, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
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
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await within(PATIENCE_MS, what, question());
    if (answer === wanted) return;
    assert.ok(Date.now() < deadline, `${what}: ${JSON.stringify(answer)}, not ${JSON.stringify(wanted)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
