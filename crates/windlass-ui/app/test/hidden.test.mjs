/** Tabs in the background of a real window: they ask for nothing and hear nothing, and catch up when they come to the front. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { browserPath, launchWindow, PATIENCE_MS, until } from "./browser.mjs";
import { startBroker, work } from "./broker.mjs";

describe("tabs in the background", { skip: browserPath() ? false : "there is no Chromium on this machine" }, () => {
  let broker;
  let browser;
  before(async () => {
    broker = await startBroker("serve");
    browser = await launchWindow();
  });
  after(async () => {
    // A broker that is left running would keep this file from ending.
    await Promise.allSettled([browser?.close(), broker?.stop()]);
  });

  /** A new tab, which is the one in front; `asked` is what it asks the broker for, sockets included. */
  async function tab(hash, prepare = async () => {}) {
    const page = await browser.window.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    const asked = [];
    page.on("request", (request) => asked.push(request.url()));
    page.on("websocket", (socket) => {
      asked.push(socket.url());
      socket.on("framereceived", () => asked.push("a message"));
    });
    await prepare(page);
    await page.goto(`${broker.url}/${hash}`);
    await page.evaluate(() => (globalThis.sameDocument = true));
    return { page, asked };
  }

  // A page in the background draws no frames, which is what Playwright would wait for: it is asked again and again instead.
  const says = (page, text) => page.evaluate((wanted) => document.body.textContent.includes(wanted), text);
  const hidden = (page) => page.evaluate(() => document.visibilityState === "hidden");
  const paused = async ({ page, asked }) => {
    await until("it is in the background", () => hidden(page), true);
    await until("it pauses", () => says(page, "Paused while hidden"), true);
    asked.length = 0;
  };
  const listeners = async () => {
    const text = await (await fetch(`${broker.url}/metrics`)).text();
    return Number(/^taskqueue_event_listeners (\d+)$/m.exec(text)[1]);
  };

  test("nothing is asked and nothing is heard behind another tab, and coming back catches up", async () => {
    await broker.submit({ id: "watched", type: "watched", queue: "watched" });
    const list = await tab("#/queues");
    await list.page.getByText("Live", { exact: true }).waitFor();
    const task = await tab("#/tasks/watched");
    await task.page.locator("h1 .badge", { hasText: "pending" }).waitFor();
    const front = await tab("#/queues");
    await front.page.getByText("Live", { exact: true }).waitFor();
    await Promise.all([paused(list), paused(task)]);
    // Of five connections that there were, the broker has only that of the tab in front.
    await until("listeners", listeners, 1);
    front.asked.length = 0;

    // The one in front shows all that happens, so all of it has been told to whoever listens.
    await work(broker, { worker: "w1", queue: "watched", count: 1 });
    for (const queue of ["first-news", "second-news", "third-news"]) {
      await broker.submit({ type: "later", queue });
      await front.page.getByRole("link", { name: queue }).waitFor();
    }
    assert.ok(front.asked.includes("a message") && front.asked.length > 6, "the one in front is kept up to date");
    assert.deepEqual([list.asked, task.asked], [[], []]);
    assert.deepEqual([await says(list.page, "first-news"), await says(task.page, "completed")], [false, false]);
    assert.equal(await listeners(), 1);

    await list.page.bringToFront();
    await list.page.getByRole("link", { name: "third-news" }).waitFor();
    await list.page.getByText("Live", { exact: true }).waitFor();
    await task.page.bringToFront();
    await task.page.locator("h1 .badge", { hasText: "completed" }).waitFor();
    for (const { page } of [list, task]) assert.equal(await page.evaluate(() => globalThis.sameDocument), true, "without a reload");
    for (const { page } of [list, task, front]) await page.close();
  });

  test("a page that asks by a timer stops it too", async () => {
    const deaf = (page) => page.routeWebSocket(/\/ws/, (socket) => socket.close());
    const back = await tab("#/queues", deaf);
    await back.page.getByText("Polling every 2 s").waitFor();
    const front = await tab("#/queues", deaf);
    await front.page.getByText("Polling every 2 s").waitFor();
    await paused(back);
    front.asked.length = 0;
    const lists = () => front.asked.filter((url) => url.includes("/api/v1/queues")).length;
    await until("the one in front has asked three times more", async () => lists() >= 3, true);
    assert.deepEqual(back.asked.filter((url) => url.startsWith("http")), []);
    await broker.submit({ type: "later", queue: "found-by-asking" });
    await back.page.bringToFront();
    await back.page.getByRole("link", { name: "found-by-asking" }).waitFor();
    for (const { page } of [back, front]) await page.close();
  });
});
