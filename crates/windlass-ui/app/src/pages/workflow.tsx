/** One workflow: its graph, live, and its tasks as a table. */

import { post, seg } from "../api/client";
import type { Workflow, WorkflowNode } from "../api/types";
import { useResource } from "../data";
import { count, plural, span } from "../format";
import { Ago, BY_PROGRESS, Button, Card, Head, Problem, Skeleton, StateBadge, StateBar } from "../parts/basics";
import { Graph } from "../parts/graph";
import { Table, type Column } from "../parts/table";
import { attempt } from "../parts/toast";
import { link } from "../route";
import { WorkflowBadge } from "./workflows";

/** A drawing of more than this says nothing any more. */
const DRAWN_MAX = 250;

const COLUMNS: Column<WorkflowNode>[] = [
  { title: "Task", class: "grow", cell: (node) => <span class="strong clip">{node.name}</span> },
  { title: "State", cell: (node) => <StateBadge state={node.state} /> },
  { title: "Type", class: "wide", cell: (node) => node.type },
  { title: "After", class: "wide", cell: (node) => <span class="clip faint">{node.after?.join(", ") || "–"}</span> },
  { title: "Took", class: "num", cell: (node) => (node.started_at && node.completed_at ? span(Date.parse(node.completed_at) - Date.parse(node.started_at)) : <span class="faint">–</span>) },
  { title: "Error", class: "grow wider", cell: (node) => <span class="clip faint">{node.error ?? ""}</span> },
];

export function WorkflowPage({ id }: { id: string }) {
  const path = `/api/v1/workflows/${seg(id)}`;
  const workflow = useResource<Workflow>(`${path}?limit=1000`);
  const data = workflow.data;
  const nodes = data?.nodes ?? [];
  const act = (word: "cancel" | "retry", done: string): void => {
    void attempt(done, () => post(`${path}/${word}`)).then(workflow.refresh);
  };
  return (
    <>
      <Head
        back={{ href: "#/workflows", text: "Workflows" }}
        title={
          <>
            {id} {data && <WorkflowBadge state={data.state} />}
          </>
        }
        sub={
          data && (
            <>
              {count(data.tasks_by_state.completed)} of {plural(data.size, "task")} done, began <Ago at={data.created_at} />
            </>
          )
        }
      >
        {data && (data.state === "failed" || data.state === "cancelled") && (
          <Button tone="primary" icon="retry" onClick={() => act("retry", "What failed runs again")}>
            Retry what failed
          </Button>
        )}
        {data?.state === "running" && (
          <Button tone="danger" icon="cancel" onClick={() => act("cancel", "It is cancelled")}>
            Cancel
          </Button>
        )}
      </Head>
      <Problem error={workflow.error} />
      {data && <StateBar counts={data.tasks_by_state} states={BY_PROGRESS} height={10} />}
      <Card title="Graph" flush>
        {!data && !workflow.error && <Skeleton lines={6} height={28} />}
        {data && nodes.length <= DRAWN_MAX && <Graph nodes={nodes} />}
        {data && nodes.length > DRAWN_MAX && <p class="note inset">A graph of {plural(data.size, "task")} is too large to be read as a drawing; here are its tasks.</p>}
      </Card>
      {nodes.length > 0 && (
        <Card title="Tasks" flush>
          <Table label="Tasks of the workflow" columns={COLUMNS} rows={nodes} id={(node) => node.id} href={(node) => link(["tasks", node.id])} />
        </Card>
      )}
      {data?.next_cursor && <p class="note">The first {count(nodes.length)} tasks are shown.</p>}
    </>
  );
}
