/**
 * Where the nodes of a graph stand: in layers, each behind all that it comes after.
 *
 * A node's layer is the length of the longest way to it. Within a layer nodes are ordered by the mean place of their
 * neighbours, a few times back and forth, which takes most crossings out. The broker sends no cycles.
 */

export interface Vertex {
  name: string;
  after?: string[];
}

export interface Placed<T extends Vertex> {
  node: T;
  x: number;
  y: number;
}

export interface Edge {
  from: string;
  to: string;
  path: string;
}

export interface Drawing<T extends Vertex> {
  nodes: Placed<T>[];
  edges: Edge[];
  width: number;
  height: number;
}

export const NODE = { width: 140, height: 46 };
const GAP = { x: 42, y: 18 };
const MARGIN = 20;
const SWEEPS = 6;

export function layout<T extends Vertex>(nodes: T[]): Drawing<T> {
  const byName = new Map(nodes.map((node) => [node.name, node]));
  const before = (node: T): string[] => (node.after ?? []).filter((name) => byName.has(name));
  const layers = ordered(layered(nodes, before), before);
  const tallest = Math.max(1, ...layers.map((layer) => layer.length));
  const height = 2 * MARGIN + tallest * NODE.height + (tallest - 1) * GAP.y;
  const place = new Map<string, Placed<T>>();
  layers.forEach((layer, column) => {
    const own = layer.length * NODE.height + (layer.length - 1) * GAP.y;
    layer.forEach((node, row) => {
      const x = MARGIN + column * (NODE.width + GAP.x);
      place.set(node.name, { node, x, y: (height - own) / 2 + row * (NODE.height + GAP.y) });
    });
  });
  const edges = nodes.flatMap((node) => before(node).map((name) => edge(place.get(name), place.get(node.name)))).filter((it) => it !== undefined);
  const width = 2 * MARGIN + layers.length * NODE.width + Math.max(0, layers.length - 1) * GAP.x;
  return { nodes: [...place.values()], edges, width, height };
}

function layered<T extends Vertex>(nodes: T[], before: (node: T) => string[]): T[][] {
  const depth = new Map<string, number>();
  const layers: T[][] = [];
  // Each node stands behind those that it comes after, so one pass is enough.
  for (const node of nodes) {
    const layer = Math.max(-1, ...before(node).map((name) => depth.get(name) ?? 0)) + 1;
    depth.set(node.name, layer);
    (layers[layer] ??= []).push(node);
  }
  return layers;
}

function ordered<T extends Vertex>(layers: T[][], before: (node: T) => string[]): T[][] {
  const after = new Map<string, string[]>();
  for (const node of layers.flat()) for (const name of before(node)) after.set(name, [...(after.get(name) ?? []), node.name]);
  const row = new Map<string, number>();
  const number = (layer: T[]): void => layer.forEach((node, at) => row.set(node.name, at - (layer.length - 1) / 2));
  layers.forEach(number);
  const sort = (layer: T[], near: (node: T) => string[]): void => {
    const mean = (node: T): number => {
      const rows = near(node).map((name) => row.get(name) ?? 0);
      return rows.length > 0 ? rows.reduce((sum, it) => sum + it, 0) / rows.length : (row.get(node.name) ?? 0);
    };
    const keyed = layer.map((node) => ({ node, key: mean(node) }));
    keyed.sort((a, b) => a.key - b.key);
    keyed.forEach(({ node }, at) => (layer[at] = node));
    number(layer);
  };
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    if (sweep % 2 === 0) for (const layer of layers) sort(layer, before);
    else for (const layer of [...layers].reverse()) sort(layer, (node) => after.get(node.name) ?? []);
  }
  return layers;
}

function edge<T extends Vertex>(from: Placed<T> | undefined, to: Placed<T> | undefined): Edge | undefined {
  if (!from || !to) return undefined;
  const [x1, y1] = [from.x + NODE.width, from.y + NODE.height / 2];
  const [x2, y2] = [to.x, to.y + NODE.height / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  return { from: from.node.name, to: to.node.name, path: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2 - 5},${y2}` };
}
