/** A workflow as a drawing. Every node is a link with a name, so the keyboard and screen readers can walk it. */

import { useMemo, useState } from "preact/hooks";
import type { WorkflowNode } from "../api/types";
import { stateLabel } from "../format";
import { link } from "../route";
import { layout, NODE } from "./layout";

const NAME_MAX = 15;
/** A wide graph is drawn smaller to fit, down to this; beyond it one scrolls. */
const SMALLEST = 0.74;

export function Graph({ nodes }: { nodes: WorkflowNode[] }) {
  // States change all the time, places only with the nodes.
  const shape = nodes.map((node) => `${node.name}:${node.after?.join() ?? ""}`).join(";");
  const drawing = useMemo(() => layout(nodes), [shape]);
  const states = new Map(nodes.map((node) => [node.name, node]));
  const [at, setAt] = useState<string>();
  return (
    <div class="graph" tabIndex={0} role="region" aria-label="Dependency graph">
      <svg style={{ maxWidth: drawing.width, minWidth: Math.min(drawing.width, drawing.width * SMALLEST) }} viewBox={`0 0 ${drawing.width} ${drawing.height}`}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M1,1 L6,4 L1,7" class="arrow" />
          </marker>
        </defs>
        {drawing.edges.map((edge) => (
          <path
            key={`${edge.from} ${edge.to}`}
            class={`edge ${states.get(edge.from)?.state === "completed" ? "open" : ""} ${at === edge.from || at === edge.to ? "near" : ""}`}
            d={edge.path}
            marker-end="url(#arrow)"
          />
        ))}
        {drawing.nodes.map(({ node: placed, x, y }) => {
          const node = states.get(placed.name) ?? placed;
          return (
            <a
              key={node.name}
              href={link(["tasks", node.id])}
              class={`node s-${node.state}`}
              onMouseEnter={() => setAt(node.name)}
              onMouseLeave={() => setAt(undefined)}
              onFocus={() => setAt(node.name)}
              onBlur={() => setAt(undefined)}
            >
              <title>{`${node.name}: ${stateLabel(node.state)}${node.error ? `\n${node.error}` : ""}`}</title>
              <rect x={x} y={y} width={NODE.width} height={NODE.height} rx="9" />
              <circle cx={x + 16} cy={y + NODE.height / 2} r="5" />
              <text x={x + 29} y={y + 20} class="node-name">
                {short(node.name)}
              </text>
              <text x={x + 29} y={y + 35} class="node-type">
                {short(node.type)}
              </text>
            </a>
          );
        })}
      </svg>
    </div>
  );
}

function short(name: string): string {
  return name.length > NAME_MAX ? `${name.slice(0, NAME_MAX - 1)}…` : name;
}
