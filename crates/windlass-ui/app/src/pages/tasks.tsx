/** Tasks by filter, newest first, as far back as one scrolls. The filter is in the address. */

import { useState } from "preact/hooks";
import type { Task } from "../api/types";
import { attemptsOf, shortId } from "../format";
import { Act } from "../parts/act";
import { Ago, Button, Card, Empty, Head, Problem, Skeleton, StateBadge } from "../parts/basics";
import { FilterBar } from "../parts/filter";
import { ListFoot, useList } from "../parts/list";
import { Table, type Column } from "../parts/table";
import { link, replaceQuery } from "../route";
import { FirstTask } from "./overview";

export const TASK_COLUMNS: Column<Task>[] = [
  { title: "Type", class: "type", cell: (task) => <span class="strong clip">{task.type}</span> },
  { title: "State", cell: (task) => <StateBadge state={task.state} /> },
  { title: "Id", class: "mono wider", cell: (task) => <span title={task.id}>{shortId(task.id)}</span> },
  { title: "Queue", class: "wide", cell: (task) => <span class="clip">{task.queue}</span> },
  { title: "Priority", class: "num wider", cell: (task) => task.priority },
  { title: "Attempts", class: "num wider", cell: (task) => attemptsOf(task) },
  { title: "Error", class: "grow wide", cell: (task) => <span class="clip faint">{task.error ?? ""}</span> },
  { title: "Changed", class: "num", cell: (task) => <Ago at={task.updated_at} /> },
];

const FIRST = 50;

export function Tasks({ filter }: { filter: string }) {
  const [acting, setActing] = useState(false);
  const list = useList<Task>("/api/v1/tasks", { filter }, FIRST);
  const refused = list.error?.status === 400 ? list.error : undefined;
  return (
    <>
      <Head title="Tasks">
        <Button icon="bolt" onClick={() => setActing(true)} disabled={filter === "" || refused !== undefined} title={filter === "" ? "Filter first: an act on everything is not offered" : undefined}>
          Act on all that match…
        </Button>
      </Head>
      <FilterBar filter={filter} refused={refused} onChange={(text) => replaceQuery({ filter: text })} />
      {!refused && <Problem error={list.error} />}
      <Card flush class="fill">
        {!list.rows && !list.error && <Skeleton lines={10} height={28} />}
        {!list.rows && refused && <Unread />}
        {list.rows?.length === 0 && list.complete && (filter ? <NoMatch /> : <FirstTask />)}
        {list.rows && (list.rows.length > 0 || !list.complete) && (
          <Table
            tall
            label="Tasks"
            columns={TASK_COLUMNS}
            rows={list.rows}
            id={(task) => task.id}
            href={(task) => link(["tasks", task.id])}
            onEnd={list.more}
            foot={<ListFoot list={list} one="task" />}
          />
        )}
      </Card>
      {acting && <Act filter={filter} onClose={() => setActing(false)} />}
    </>
  );
}

function Unread() {
  return (
    <Empty icon="edit" title="The filter has a mistake">
      <p>Mend the word that is named above; the question mark beside it says what a filter can take.</p>
    </Empty>
  );
}

function NoMatch() {
  return (
    <Empty icon="search" title="No task matches">
      <p>Take a word out of the filter, or look for another state.</p>
    </Empty>
  );
}
