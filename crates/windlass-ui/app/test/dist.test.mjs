/** What is committed in dist is what the source comes to. Only the compressed copies may differ, by the version of zlib. */

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const committed = join(root, "../dist");

test("the committed dashboard is built from this source", async () => {
  const folder = mkdtempSync(join(tmpdir(), "windlass-dist-"));
  try {
    process.chdir(root);
    await build({ root, logLevel: "error", build: { outDir: folder } });
    assert.deepEqual(readdirSync(committed).sort(), readdirSync(folder).sort(), "other files: run `npm run build`");
    for (const name of readdirSync(folder)) {
      const read = (from) => (name.endsWith(".gz") ? gunzipSync(readFileSync(join(from, name))) : readFileSync(join(from, name)));
      assert.ok(read(folder).equals(read(committed)), `${name} is not what the source comes to: run \`npm run build\``);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("no address of a registry is written down", () => {
  assert.doesNotMatch(readFileSync(join(root, "package-lock.json"), "utf8"), /"resolved": "http/);
});
