/** Every page with real data of a running broker, in both themes and on a narrow screen. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { browserPath, launch, open, settled, until, violations } from "./browser.mjs";
import { startBroker, work } from "./broker.mjs";

const HOSTILE = "<script>globalThis.pwned = 1</script><img src=x onerror='globalThis.pwned = 1'>";

describe("pages", { skip: browserPath() ? false : "there is no Chromium on this machine" }, () => {
  let broker;
  let browser;
  let dark;
  before(async () => {
    broker = await startBroker();
    browser = await launch();
    await seed(broker);
    dark = await open(browser, broker.url, "#/", { colorScheme: "dark" });
  });
  after(async () => {
    await browser?.close();
    await broker?.stop();
  });

  const PAGES = {
    "#/": ["Overview", "mail"],
    "#/queues": ["Queues", "mail"],
    "#/queues/mail": ["mail", "email.send"],
    "#/tasks": ["Tasks", "email.send"],
    "#/tasks?filter=state%3Adead_letter": ["Tasks", "smtp: mailbox"],
    "#/tasks/done": ["echo", "completed"],
    "#/tasks/hostile": ["email.send", "globalThis.pwned"],
    "#/tasks/waits": ["nobody", "No worker listens"],
    "#/dead": ["Dead letters", "smtp: mailbox"],
    "#/schedules": ["Schedules", "nightly"],
    "#/schedules/nightly": ["nightly", "0 2 * * *"],
    "#/schedule": ["New schedule", "Valid JSON"],
    "#/schedule?edit=nightly": ["Edit a schedule", "Valid JSON"],
    "#/workflows": ["Workflows", "import"],
    "#/workflows/import": ["import", "fetch"],
    "#/limits": ["Limits", "tenant-7"],
    "#/limits?scope=type": ["Limits", "email.send"],
    "#/workers": ["Workers", "echo"],
    "#/operations": ["Operations", "type:none"],
    "#/submit": ["Submit a task", "Valid JSON"],
    "#/nowhere": ["Not found", "no such page"],
  };
  // In the light theme a page is opened as a link from elsewhere, in the dark one by going there.
  for (const [hash, [title, text]] of Object.entries(PAGES)) {
    test(hash, async () => {
      const fresh = await open(browser, broker.url, hash);
      await settled(fresh.page);
      assert.deepEqual(await fresh.page.evaluate(() => [...globalThis.windlassEarly.keys()]), [], "asked early, and used by nobody");
      await Promise.all([judge(fresh, title, text), dark.page.goto(`${broker.url}/${hash}`).then(() => judge(dark, title, text))]);
      await fresh.context.close();
    });
  }

  async function judge({ page, mistakes }, title, text) {
    await settled(page);
    await page.getByRole("heading", { level: 1, name: title }).waitFor();
    await page.getByText(text).filter({ visible: true }).first().waitFor();
    assert.deepEqual(await violations(page), []);
    assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
    await page.setViewportSize({ width: 400, height: 800 });
    // Charts are drawn anew a moment after the window has its size.
    const tooWide = () => page.evaluate(() => Math.max(0, document.documentElement.scrollWidth - innerWidth));
    await until("too wide at 400 px by", tooWide, 0);
    await page.setViewportSize({ width: 1280, height: 800 });
    assert.deepEqual(mistakes, []);
  }

  test("what users wrote is text", async () => {
    const { page, context } = await open(browser, broker.url, "#/tasks/hostile");
    await settled(page);
    await page.getByText(HOSTILE).first().waitFor();
    assert.equal(await page.locator("main script, main img").count(), 0);
    assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
    // Even markup that got in would not run.
    await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "globalThis.inline = 1";
      document.body.append(script);
    });
    assert.equal(await page.evaluate(() => globalThis.inline), undefined);
    await context.close();
  });
});

async function seed({ ask, post, submit, ended, get }) {
  await submit({ id: "done", type: "echo", payload: { hello: "world", large: 1 } });
  await ended("done");
  await submit({ id: "hostile", type: "email.send", queue: "hostile", payload: { [HOSTILE]: HOSTILE }, metadata: { note: HOSTILE }, unique_key: HOSTILE });
  for (let number = 0; number < 5; number += 1) await submit({ type: "email.send", queue: "mail", payload: { to: number } });
  await work({ post }, { worker: "w1", queue: "hostile", count: 1, judge: () => HOSTILE });
  await work({ post }, { worker: "w1", queue: "mail", count: 4, judge: (task) => (task.payload.to % 2 ? undefined : `smtp: mailbox ${task.payload.to} is full`) });
  await submit({ id: "waits", type: "nobody", queue: "idle", payload: null });
  await ask("PUT", "/api/v1/schedules/nightly", { cron: "0 2 * * *", task: { type: "echo" } });
  await post("/api/v1/schedules/nightly/run");
  await post("/api/v1/workflows", { id: "import", tasks: { fetch: { type: "echo" }, clean: { type: "email.send", after: ["fetch"] } } });
  await ask("PUT", "/api/v1/limits/key/tenant-7", { max_concurrency: 5, rate: { count: 100, per_seconds: 60 }, weight: 3, paused: true });
  await ask("PUT", "/api/v1/limits/type/email.send", { max_concurrency: 20, max_depth: 1000 });
  await post("/api/v1/operations", { action: "cancel", filter: "type:none" });
  await ended("import:fetch");
  assert.equal((await get("/api/v1/queues")).items.some((queue) => queue.name === "mail"), true);
}
