/** The parts of the source that need no browser. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { createServer } from "vite";

let vite;
let json;
let layout;
before(async () => {
  const root = fileURLToPath(new URL("..", import.meta.url));
  vite = await createServer({ root, logLevel: "error", server: { middlewareMode: true, ws: false }, optimizeDeps: { noDiscovery: true }, appType: "custom" });
  json = await vite.ssrLoadModule("/src/api/json.ts");
  layout = await vite.ssrLoadModule("/src/parts/layout.ts");
});
after(() => vite?.close());

test("a field is cut out of its text as it stands there", () => {
  const text = '{"metadata":{"payload":"not this"},"error":"\\"payload\\":1","payload": {"n":12345678901234567890,"a":[1,{"}":","}]} ,"result":null}';
  assert.equal(json.rawField(text, "payload"), '{"n":12345678901234567890,"a":[1,{"}":","}]}');
  assert.equal(json.rawField(text, "result"), "null");
  assert.equal(json.rawField(text, "missing"), undefined);
  assert.equal(json.rawField('["payload",{"payload":1}]', "payload"), undefined);
});

test("indenting changes nothing but space", () => {
  const text = '{"a":[],"b":{},"c":[1.0e+5,-0,true,null,"x \\" y"],"ü":"\\u00fc"}';
  assert.equal(json.pretty(text).replace(/\n */g, "").replaceAll('": ', '":'), text);
  assert.deepEqual(JSON.parse(json.pretty(text)), JSON.parse(text));
  assert.equal(json.pretty('{"a":[],"b":{"c":1}}'), '{\n  "a": [],\n  "b": {\n    "c": 1\n  }\n}');
  // What is no JSON is shown as it is.
  assert.equal(json.pretty("[1, oops"), "[\n  1,\n  oops");
});

test("mistakes in JSON are placed", () => {
  assert.equal(json.mistake('{"a": 1}'), undefined);
  assert.match(json.mistake('{\n  "a": 1,\n}'), /line 3/);
  assert.match(json.mistake(""), /empty/);
});

test("a shell gets a text as one word", () => {
  assert.equal(json.quoted("it's"), "'it'\\''s'");
});

test("a graph stands in layers, and no node on another", () => {
  const node = (name, ...after) => ({ name, after });
  const drawing = layout.layout([node("a"), node("b"), node("c", "a", "outside"), node("d", "a", "b"), node("e", "c", "d", "a")]);
  const at = Object.fromEntries(drawing.nodes.map((it) => [it.node.name, it]));
  for (const { node: it, x } of drawing.nodes) for (const name of it.after) if (at[name]) assert.ok(at[name].x < x, `${name} before ${it.name}`);
  assert.equal(new Set(drawing.nodes.map((it) => `${it.x} ${it.y}`)).size, 5);
  assert.equal(drawing.edges.length, 6);
  assert.ok(drawing.nodes.every((it) => it.x >= 0 && it.x + layout.NODE.width <= drawing.width && it.y >= 0 && it.y + layout.NODE.height <= drawing.height));
});
