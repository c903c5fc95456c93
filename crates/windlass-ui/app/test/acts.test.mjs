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

  on("a limit of a queue is set, and taken away", "#/queues/live", async (page) => {
    // What somebody else has set stays as it is when this form is saved.
    await broker.ask("PUT", "/api/v1/limits/queue/live", { ageing: { every_seconds: 30 } });
    await page.getByText("every 30 s").waitFor();
    await page.getByRole("button", { name: "Change the limit" }).click();
    await page.getByLabel("Tasks at once").fill("3");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("0 of 3").waitFor();
    const limit = await broker.get("/api/v1/limits/queue/live");
    assert.deepEqual([limit.max_concurrency, limit.ageing], [3, { every_seconds: 30 }]);
    await page.getByRole("button", { name: "Change the limit" }).click();
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByText("as workers take").waitFor();
  });

  on("limits of types and keys are made, seen to hold, paused, changed and removed", "#/limits", async (page) => {
    await page.getByText("Nothing is limited").waitFor();
    await page.getByRole("button", { name: "New limit" }).click();
    const dialog = page.getByRole("dialog");
    assert.equal(await dialog.getByRole("button", { name: "Save" }).isDisabled(), true);
    await dialog.getByLabel("Name").fill("tenant 7");
    await dialog.getByLabel("Weight").fill("5000");
    await dialog.getByRole("button", { name: "Save" }).click();
    // What the broker refuses is said, by the field if it names one.
    await dialog.getByRole("alert").or(dialog.locator(".field.bad")).first().waitFor();
    await dialog.getByLabel("Name").fill("tenant-7");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.locator(".field.bad", { hasText: "Weight" }).waitFor();
    assert.deepEqual(await violations(page), []);
    await dialog.getByLabel("Weight").fill("3");
    await dialog.getByLabel("Tasks at once").fill("1");
    await dialog.getByLabel("Starts").fill("100");
    await dialog.getByLabel("in seconds").fill("60");
    await dialog.getByRole("button", { name: "Save" }).click();
    const row = page.getByRole("row", { name: /tenant-7/ });
    await row.getByText("0 of 1").waitFor();
    const set = async () => {
      const { max_concurrency, rate, weight, paused } = await broker.get("/api/v1/limits/key/tenant-7");
      return { max_concurrency, rate, weight, paused };
    };
    const wanted = { max_concurrency: 1, rate: { count: 100, per_seconds: 60 }, weight: 3, paused: false };
    assert.deepEqual(await set(), wanted);

    // It holds up the second of two tasks, which the page shows by itself, and the task says where to look.
    for (const id of ["held", "waits-for-it"]) await broker.submit({ id, type: "limited", queue: "limited", key: "tenant-7" });
    const claim = { worker_id: "w9", queues: ["limited"], max: 2 };
    const { tasks } = await broker.post("/api/v1/claim", claim);
    assert.deepEqual(tasks.map((task) => task.id), ["held"]);
    await row.getByText("1 of 1").waitFor();
    await row.getByText("full").waitFor();
    await page.goto(`${broker.url}/#/tasks/waits-for-it`);
    await page.getByRole("main").getByRole("link", { name: "Limits" }).click();
    await broker.post("/api/v1/tasks/held/complete", { lease: tasks[0].lease });
    await row.getByText("open").waitFor();

    await row.getByRole("button", { name: "Pause key tenant-7" }).click();
    await row.getByRole("button", { name: "Resume key tenant-7" }).waitFor();
    assert.deepEqual(await set(), { ...wanted, paused: true });
    assert.deepEqual((await broker.post("/api/v1/claim", claim)).tasks, []);
    await row.getByRole("button", { name: "Resume key tenant-7" }).click();
    await row.getByRole("button", { name: "Pause key tenant-7" }).waitFor();
    assert.deepEqual(await set(), wanted);

    await broker.ask("PUT", "/api/v1/limits/type/limited", { max_depth: 500 });
    await page.getByRole("button", { name: "Types" }).click();
    await page.getByRole("row", { name: /limited/ }).waitFor();
    await row.waitFor({ state: "detached" });
    assert.match(page.url(), /limits\?scope=type/);
    await page.getByRole("button", { name: "Change the limit of type limited" }).click();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await page.getByText("No type has a limit").waitFor();
    await assert.rejects(broker.get("/api/v1/limits/type/limited"), /404/);
    await broker.ask("DELETE", "/api/v1/limits/key/tenant-7");
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
      const copied = () => page.evaluate(() => navigator.clipboard.readText());
      await page.evaluate(() => navigator.clipboard.writeText(""));
      await page.getByRole("button", { name }).click();
      await until("something is copied", async () => (await copied()) !== "", true);
      const line = await copied();
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
    // The second key has its time, which a busy machine may let pass: then one presses both again.
    const goes = (key, name) =>
      until(name, async () => {
        for (const each of ["g", key]) await page.keyboard.press(each);
        return page.getByRole("heading", { level: 1, name }).isVisible();
      }, true);
    await title("Overview");
    await goes("q", "Queues");
    await page.keyboard.press("?");
    await page.getByRole("heading", { name: "Shortcuts" }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "Shortcuts" }).waitFor({ state: "detached" });
    await goes("m", "Limits");
    await goes("t", "Tasks");
    await page.locator("tbody tr[data-row]").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("type:followed");
    await until("rows", () => page.locator("tbody tr[data-row]").count(), 1);
    await page.keyboard.press("Escape");
    // While the list is being read anew the focus can be lost: then one presses it again.
    await until("a row has the focus", async () => {
      await page.keyboard.press("j");
      return page.locator("tbody tr[data-row] :focus").count();
    }, 1);
    await page.keyboard.press("Enter");
    await title(/followed/);
    await page.keyboard.press("Control+k");
    // What is typed before the field is there goes to the page.
    await page.locator(".palette-input:focus").waitFor();
    await page.keyboard.type("sched");
    await page.getByRole("option", { name: /Schedules/ }).waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Enter");
    await title("Schedules");
  });
});
