/** What people do on the dashboard, and what the broker has afterwards. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { dirname } from "node:path";
import { after, before, describe, test } from "node:test";
import { browserPath, launch, open, settled, until, violations } from "./browser.mjs";
import { startBroker, work } from "./broker.mjs";

describe("acts", { skip: browserPath() ? false : "there is no Chromium on this machine" }, () => {
  let broker;
  let browser;
  before(async () => {
    broker = await startBroker();
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await broker?.stop();
  });

  /** Opens a page, does something on it, and wants no complaint of the browser. */
  const on = (name, hash, act, options) =>
    test(name, async () => {
      const { page, context, mistakes } = await open(browser, broker.url, hash, options);
      await act(page);
      assert.deepEqual(mistakes, []);
      await context.close();
    });

  on("an empty broker says what to do next", "#/", async (page) => {
    await page.getByText("No tasks yet").waitFor();
    await page.getByText("windlass submit echo").waitFor();
  });

  on("a task is submitted from the form, and followed to its end", "#/submit", async (page) => {
    await page.getByLabel("Type").fill("echo");
    await page.getByLabel("Payload, JSON").fill('{"n": 12345678901234567890,');
    await page.getByText(/Expected|JSON/).first().waitFor();
    assert.equal(await page.getByRole("button", { name: "Submit", exact: true }).isDisabled(), true);
    await page.getByLabel("Payload, JSON").fill('{"n": 12345678901234567890}');
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.locator(".badge", { hasText: "completed" }).waitFor();
    await page.getByRole("link", { name: "Open the task" }).click();
    await page.getByRole("heading", { level: 1, name: "echo" }).waitFor();
    // Not as JavaScript would round it.
    await page.getByText("12345678901234567890").first().waitFor();
    await page.getByRole("link", { name: "Edit and resubmit" }).click();
    await page.getByRole("heading", { name: "Edit and resubmit" }).waitFor();
    await page.getByRole("button", { name: "Submit", exact: true }).click();
    await page.locator(".badge", { hasText: "completed" }).waitFor();
    const { items } = await broker.get("/api/v1/tasks?type=echo");
    assert.equal(items.length, 2);
    const raw = await (await fetch(`${broker.url}/api/v1/tasks/${items[0].id}`)).text();
    assert.match(raw, /12345678901234567890/);
  });

  on("counts change without a reload", "#/queues", async (page) => {
    await settled(page);
    await page.evaluate(() => (globalThis.sameDocument = true));
    await broker.submit({ type: "later", queue: "live" });
    await broker.submit({ type: "later", queue: "live" });
    const row = page.getByRole("row", { name: /live/ });
    await row.waitFor();
    await until("pending", () => row.getByRole("cell").nth(2).textContent(), "2");
    assert.equal(await page.evaluate(() => globalThis.sameDocument), true);
  });

  on("a queue is paused and resumed", "#/queues", async (page) => {
    await page.getByRole("button", { name: "Pause live" }).click();
    await page.getByRole("button", { name: "Resume live" }).waitFor();
    assert.equal((await broker.get("/api/v1/queues/live")).paused, true);
    await page.getByRole("button", { name: "Resume live" }).click();
    await page.getByRole("button", { name: "Pause live" }).waitFor();
    assert.equal((await broker.get("/api/v1/queues/live")).paused, false);
  });

  on("what waits in a queue is forgotten, after a question", "#/queues/live", async (page) => {
    await page.getByRole("button", { name: "Purge" }).click();
    await page.getByRole("dialog").getByText("2 pending tasks").waitFor();
    assert.deepEqual(await violations(page), []);
    await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
    assert.equal((await broker.get("/api/v1/queues/live")).tasks.pending, 2);
    await page.getByRole("button", { name: "Purge" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
    await page.getByText("2 tasks of live forgotten").waitFor();
    assert.equal((await broker.get("/api/v1/queues/live")).tasks.pending, 0);
    for (const _ of [1, 2]) await broker.submit({ type: "later", queue: "live" });
  });

  on("a schedule is made, changed, paused, run and deleted", "#/schedules", async (page) => {
    await page.getByRole("link", { name: "New schedule" }).click();
    await page.getByRole("heading", { level: 1, name: "New schedule" }).waitFor();
    const save = page.getByRole("button", { name: "Make the schedule" });
    assert.equal(await save.isDisabled(), true);
    await page.getByLabel("Name").fill("hourly");
    await page.getByLabel("When").fill("61 * * * *");
    await page.getByLabel("Type").fill("echo");
    await page.getByLabel("Payload, JSON").fill('{"slot": "{{scheduled_at}}", "n": 12345678901234567890}');
    await save.click();
    // The broker refuses the pattern, and the field says so.
    await page.locator(".field.bad", { hasText: "When" }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.getByRole("button", { name: "0 2 * * *", exact: true }).click();
    await save.click();
    await page.getByRole("heading", { level: 1, name: "hourly" }).waitFor();
    assert.equal((await broker.get("/api/v1/schedules/hourly")).cron, "0 2 * * *");

    // What the form does not show is kept when it is saved.
    const task = { type: "echo", queue: "default", max_retries: 7, metadata: { team: "ops" }, payload: { n: 1 } };
    const ends = new Date(Date.now() + 365 * 86_400_000).toISOString();
    await broker.ask("PUT", "/api/v1/schedules/hourly", { cron: "0 2 * * *", task, ends_at: ends, catch_up_window_seconds: 60 });
    await page.getByRole("link", { name: "Edit" }).click();
    await page.getByLabel("When").fill("5 * * * *");
    await page.getByLabel("Time zone").fill("Europe/Berlin");
    await page.getByLabel("If the last one is not done").selectOption("skip");
    await page.getByLabel("Payload, JSON").fill('{"n": 12345678901234567890}');
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("5 * * * *").first().waitFor();
    await until("saved", async () => (await broker.get("/api/v1/schedules/hourly")).cron, "5 * * * *");
    const text = await (await fetch(`${broker.url}/api/v1/schedules/hourly`)).text();
    const seen = JSON.parse(text);
    assert.deepEqual([seen.timezone, seen.overlap, seen.ends_at, seen.catch_up_window_seconds], ["Europe/Berlin", "skip", ends, 60]);
    assert.deepEqual([seen.task.max_retries, seen.task.metadata], [7, { team: "ops" }]);
    assert.match(text, /12345678901234567890/);

    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByRole("button", { name: "Resume" }).waitFor();
    assert.equal((await broker.get("/api/v1/schedules/hourly")).paused, true);
    await page.getByRole("button", { name: "Run now" }).click();
    await page.locator(".fires .badge", { hasText: "completed" }).waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { level: 1, name: "Schedules" }).waitFor();
    await assert.rejects(broker.get("/api/v1/schedules/hourly"), /404/);
  });

  on("a limit is set and taken away", "#/queues/live", async (page) => {
    await page.getByRole("button", { name: "Change the limit" }).click();
    await page.getByLabel("Tasks at once").fill("3");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("0 of 3").waitFor();
    assert.equal((await broker.get("/api/v1/limits/queue/live")).max_concurrency, 3);
    await page.getByRole("button", { name: "Change the limit" }).click();
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByText("as workers take").waitFor();
  });

  on("a filter narrows the list, is in the address, and its mistakes are named", "#/tasks", async (page) => {
    await settled(page);
    const rows = () => page.locator("tbody tr[data-row]").count();
    await page.locator("tbody tr[data-row]").first().waitFor();
    await page.getByLabel("Filter", { exact: true }).fill("type:later");
    await until("rows", rows, 2);
    assert.match(page.url(), /filter=type%3Alater/);
    await page.getByRole("button", { name: "completed" }).click();
    await page.getByText("No task matches").waitFor();
    await page.reload();
    await page.getByText("No task matches").waitFor();
    assert.equal(await page.getByLabel("Filter", { exact: true }).inputValue(), "state:completed type:later");
    await page.getByLabel("Filter", { exact: true }).fill("stat:dead");
    await page.getByText(/did you mean/).waitFor();
    await page.getByRole("button", { name: "Clear the filter" }).click();
    await until("rows", async () => (await rows()) >= 4, true);
  });

  on("all that match are cancelled, after a look at how many", "#/tasks?filter=type:later", async (page) => {
    await page.getByRole("button", { name: /Act on all/ }).click();
    await page.getByLabel("What to do").selectOption("cancel");
    await page.getByRole("button", { name: "Cancel: 2 tasks" }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.getByRole("button", { name: "Cancel: 2 tasks" }).click();
    await page.getByText("2 changed").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await page.locator("tbody .badge", { hasText: "cancelled" }).first().waitFor();
    const { items } = await broker.get("/api/v1/tasks?type=later&state=cancelled");
    assert.equal(items.length, 2);
  });

  test("a long list is read as one scrolls, and only what is in sight is in the document", async () => {
    const tasks = Array.from({ length: 600 }, (_, number) => ({ id: `bulk-${number}`, type: "bulk", queue: "bulk" }));
    await broker.post("/api/v1/tasks/batch", { tasks });
    const { page, context, mistakes } = await open(browser, broker.url, "#/tasks?filter=type:bulk");
    const box = page.getByRole("region", { name: "Tasks" });
    await box.waitFor();
    const bottom = async () => {
      await box.evaluate((element) => element.scrollTo(0, element.scrollHeight));
      return page.locator(".table-foot").textContent();
    };
    await until("the end of the list", bottom, "600 tasks");
    // The last rows may have come between the scrolling and the reading.
    await bottom();
    await page.locator('tr[aria-rowindex="601"]').waitFor();
    assert.ok((await page.locator("tbody tr[data-row]").count()) < 80);
    assert.equal(await page.getByRole("table").getAttribute("aria-rowcount"), "601");
    assert.deepEqual(mistakes, []);
    await context.close();
  });

  test("a group of dead letters is retried", async () => {
    for (let number = 0; number < 3; number += 1) await broker.submit({ type: "mail", queue: "mail", payload: number });
    await broker.submit({ type: "mail", queue: "mail", payload: 9 });
    await work(broker, { worker: "w1", queue: "mail", count: 4, judge: (task) => (task.payload === 9 ? "the disk is full" : `connection ${task.payload} timed out`) });
    const { page, context, mistakes } = await open(browser, broker.url, "#/dead");
    await page.getByText("the disk is full").waitFor();
    await page.getByRole("button", { name: "Retry 3 tasks of mail" }).click();
    await page.getByRole("button", { name: "Retry: 3 tasks" }).click();
    await page.getByText("3 changed").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).last().click();
    await page.getByRole("button", { name: "Retry 3 tasks of mail" }).waitFor({ state: "detached" });
    const pending = (await broker.get("/api/v1/tasks?type=mail&state=pending")).items;
    assert.deepEqual(pending.map((task) => task.payload).sort(), [0, 1, 2]);
    assert.deepEqual(mistakes, []);
    await context.close();
  });

  test("a task is submitted again by the command lines that its page gives", async () => {
    const payload = { text: `it's "quoted" $HOME \\ ü`, list: [1, 2] };
    await broker.submit({ id: "copied", type: "copied", queue: "copied", key: "tenant", metadata: { note: "a 'b'" }, max_retries: 7, payload });
    const { page, context } = await open(browser, broker.url, "#/tasks/copied", { permissions: ["clipboard-read", "clipboard-write"] });
    for (const name of ["Copy as curl", "Copy for the CLI"]) {
      await page.getByRole("button", { name }).click();
      await page.getByRole("button", { name: "Copied" }).waitFor();
      const line = await page.evaluate(() => navigator.clipboard.readText());
      const env = { ...process.env, PATH: `${dirname(process.env.WINDLASS_BIN)}:${process.env.PATH}`, WINDLASS_SERVER: broker.url, WINDLASS_GRPC_SERVER: broker.grpc };
      execFileSync("bash", ["-c", line], { env, stdio: ["ignore", "ignore", "inherit"] });
      await page.reload();
    }
    const { items } = await broker.get("/api/v1/tasks?type=copied");
    const shape = ({ queue, key, metadata, max_retries, priority, payload: sent }) => ({ queue, key, metadata, max_retries, priority, sent });
    assert.equal(items.length, 3);
    for (const task of items) assert.deepEqual(shape(task), shape(items[2]));
    assert.deepEqual(items[0].payload, payload);
    await context.close();
  });

  test("one task is retried and cancelled on its page", async () => {
    const dead = (await broker.get("/api/v1/dlq")).items[0];
    const { page, context } = await open(browser, broker.url, `#/tasks/${dead.id}`);
    await page.getByRole("button", { name: "Retry", exact: true }).click();
    await page.getByText(/of its queue and type/).waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.locator("h1 .badge", { hasText: "cancelled" }).waitFor();
    await context.close();
  });

  test("a task page follows its task to the end without a reload", async () => {
    await broker.submit({ id: "followed", type: "followed", queue: "followed" });
    const { page, context } = await open(browser, broker.url, "#/tasks/followed");
    await page.locator("h1 .badge", { hasText: "pending" }).waitFor();
    await page.evaluate(() => (globalThis.sameDocument = true));
    await work(broker, { worker: "w2", queue: "followed", count: 1 });
    await page.locator("h1 .badge", { hasText: "completed" }).waitFor();
    await page.getByText("Attempt 1 completed").waitFor();
    assert.equal(await page.evaluate(() => globalThis.sameDocument), true);
    await context.close();
  });

  on("the broker is heard live", "#/queues", async (page) => {
    await page.getByText("Live", { exact: true }).waitFor();
  });

  test("without a socket the page asks by itself", async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.routeWebSocket(/\/ws/, (socket) => socket.close());
    await page.goto(`${broker.url}/#/queues`);
    await page.getByText("Polling every 2 s").waitFor();
    await broker.submit({ type: "later", queue: "polled" });
    await page.getByRole("link", { name: "polled" }).waitFor();
    await context.close();
  });

  test("the overview draws what the broker has recorded", async () => {
    const { page, context } = await open(browser, broker.url, "#/");
    await page.getByRole("img", { name: /Tasks per second over the last 15m\. Latest: submitted \d/ }).waitFor();
    await page.getByRole("button", { name: "1 h" }).click();
    await page.getByRole("img", { name: /over the last 1h/ }).first().waitFor();
    assert.match(page.url(), /range=1h/);
    await context.close();
  });

  on("dark and light: as the system says, and as one chooses", "#/", async (page) => {
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await ground();
    await page.emulateMedia({ colorScheme: "dark" });
    const dark = await ground();
    assert.notEqual(light, dark);
    await page.getByRole("button", { name: "Light theme" }).click();
    assert.equal(await ground(), light);
    await page.reload();
    assert.equal(await ground(), light);
  }, { colorScheme: "light" });

  on("the keyboard goes everywhere", "#/", async (page) => {
    const title = (name) => page.getByRole("heading", { level: 1, name }).waitFor();
    await title("Overview");
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await title("Queues");
    await page.keyboard.press("?");
    await page.getByRole("heading", { name: "Shortcuts" }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Shortcuts" }).waitFor({ state: "detached" });
    await page.keyboard.press("g");
    await page.keyboard.press("t");
    await title("Tasks");
    await page.locator("tbody tr[data-row]").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("type:followed");
    await until("rows", () => page.locator("tbody tr[data-row]").count(), 1);
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.locator("tbody tr[data-row] :focus").waitFor();
    await page.keyboard.press("Enter");
    await title(/followed/);
    await page.keyboard.press("Control+k");
    await page.keyboard.type("sched");
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Enter");
    await title("Schedules");
  });

  on("a hidden tab is left in peace, and catches up", "#/queues", async (page) => {
    await settled(page);
    const hide = (hidden) =>
      page.evaluate((value) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await page.clock.install();
    await hide(true);
    await page.clock.fastForward(6000);
    await page.getByText("Paused while hidden").waitFor();
    const asked = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.clock.fastForward(10_000);
    assert.deepEqual(asked, []);
    await broker.submit({ type: "later", queue: "while-hidden" });
    await hide(false);
    await page.getByRole("link", { name: "while-hidden" }).waitFor();
  });
});
