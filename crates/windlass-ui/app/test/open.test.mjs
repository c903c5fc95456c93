/** What the list of tasks takes to open does not grow with the tasks: requests, bytes, rows, and records that the store looks at. */

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { browserPath, launch } from "./browser.mjs";
import { startBroker } from "./broker.mjs";
import { cold, fill } from "./many.mjs";

/** Those of before a restart are in the tables of the store, which have an index; the few others in its memory, which is looked through. */
const OLD = 6000;
const ALL = 6020;
const PAGE = 50;
const FILES_BYTES_MAX = 150_000;
/** Fifty tasks as large as these, as JSON. */
const LIST_BYTES_MAX = 64 * 1024;

describe("opening the list of tasks", { skip: browserPath() ? false : "there is no Chromium on this machine" }, () => {
  let broker;
  let browser;
  before(async () => {
    broker = await startBroker("serve");
    await fill(broker, OLD, 60);
    broker = await broker.restarted();
    await fill(broker, ALL, 10);
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await broker?.stop();
  });

  const lookedAt = async () => {
    const text = await (await fetch(`${broker.url}/metrics`)).text();
    return Number(/^taskqueue_store_listed_records_total (\d+)$/m.exec(text)[1]);
  };
  const isList = (address) => new URL(address).pathname === "/api/v1/tasks";

  // What has an index: all tasks in their order, and those of a state or a queue.
  for (const filter of ["", "state:dead_letter", "queue:q07", "state:scheduled,completed queue:q05"]) {
    test(filter || "all of them", async () => {
      const before = await lookedAt();
      const seen = await cold(browser, broker.url, `#/tasks${filter ? `?filter=${encodeURIComponent(filter)}` : ""}`);
      const early = seen.files.filter((it) => it.startTime < seen.rowsAt);
      const calls = early.filter((it) => it.name.includes("/api/"));
      assert.ok(seen.rows > 0 && seen.rows <= PAGE, `${seen.rows} rows`);

      const lists = calls.filter((it) => isList(it.name));
      assert.equal(lists.length, 1, "the list is asked for once before it is shown");
      const query = new URL(lists[0].name).searchParams;
      assert.deepEqual([query.get("limit"), query.get("filter") ?? ""], [String(PAGE), filter]);
      assert.ok(lists[0].bytes > 0 && lists[0].bytes < LIST_BYTES_MAX, `${lists[0].bytes} bytes`);
      assert.ok(calls.length <= 2, `nothing else but who the broker is: ${calls.map((it) => it.name).join(" ")}`);

      const files = early.filter((it) => !it.name.includes("/api/"));
      const bytes = files.reduce((sum, it) => sum + it.bytes, seen.document.bytes);
      assert.ok(bytes > 0 && bytes < FILES_BYTES_MAX, `${bytes} bytes of ${files.map((it) => it.name).join(" ")}`);

      // A page is filled from memory and from the tables. A page that lives on may have asked again before it was closed.
      const looked = (await lookedAt()) - before;
      const asked = seen.asked.filter(isList).length;
      assert.ok(looked > 0 && looked <= asked * 2 * PAGE, `${looked} records for ${asked} pages of a store with ${ALL}`);
    });
  }
});
