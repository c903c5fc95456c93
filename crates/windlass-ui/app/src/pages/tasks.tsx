/** Tasks by filter, newest first, as far back as one scrolls. The filter is in the address. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, Refusal, url } from "../api/client";
import type { Page, Task } from "../api/types";
import { useResource } from "../data";
import { count, shortId } from "../format";
import { Act } from "../parts/act";
import { Ago, Button, Card, Empty, Head, Problem, Skeleton, StateBadge } from "../parts/basics";
import { FilterBar } from "../parts/filter";
import { Table, type Column } from "../parts/table";
import { link, replaceQuery } from "../route";
import { FirstTask } from "./overview";

export const TASK_COLUMNS: Column<Task>[] = [
  { title: "Type", class: "type", cell: (task) => <span class="strong clip">{task.type}</span> },
  { title: "State", cell: (task) => <StateBadge state={task.state} /> },
  { title: "Id", class: "mono wider", cell: (task) => <span title={task.id}>{shortId(task.id)}</span> },
  { title: "Queue", class: "wide", cell: (task) => <span class="clip">{task.queue}</span> },
  { title: "Priority", class: "num wider", cell: (task) => task.priority },
  { title: "Attempts", class: "num wider", cell: (task) => `${task.attempts} / ${task.max_retries + 1}` },
  { title: "Error", class: "grow wide", cell: (task) => <span class="clip faint">{task.error ?? ""}</span> },
  { title: "Changed", class: "num", cell: (task) => <Ago at={task.updated_at} /> },
];

const FIRST = 50;
const MORE = 200;
/** What one page of the browser keeps; further back one goes by a narrower filter. */
const ROWS_MAX = 10_000;

export function Tasks({ filter }: { filter: string }) {
  const [acting, setActing] = useState(false);
  const list = useTasks(filter);
  return (
    <>
      <Head title="Tasks">
        <Button icon="bolt" onClick={() => setActing(true)} disabled={filter === "" || list.refused !== undefined} title={filter === "" ? "Filter first: an act on everything is not offered" : undefined}>
          Act on all that match…
        </Button>
      </Head>
      <FilterBar filter={filter} refused={list.refused} onChange={(text) => replaceQuery({ filter: text })} />
      {list.error && <Problem error={list.error} />}
      <Card flush class="fill">
        {!list.rows && !list.error && !list.refused && <Skeleton lines={10} height={28} />}
        {!list.rows && list.refused && <Unread />}
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
            foot={<Foot shown={list.rows.length} complete={list.complete} stale={list.stale} fresh={list.fresh} />}
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

function Foot({ shown, complete, stale, fresh }: { shown: number; complete: boolean; stale: boolean; fresh: () => void }) {
  return (
    <div class="table-foot">
      <span>
        {shown === 0 ? "Looking further back…" : `${count(shown)} ${complete ? (shown === 1 ? "task" : "tasks") : "shown, more below"}`}
      </span>
      {stale && (
        <Button tone="quiet" icon="retry" onClick={fresh}>
          There is news: show the latest
        </Button>
      )}
    </div>
  );
}

interface List {
  rows: Task[] | undefined;
  complete: boolean;
  error: Refusal | undefined;
  /** The filter has a mistake; rows are those of the last good one. */
  refused: Refusal | undefined;
  more: () => void;
  stale: boolean;
  fresh: () => void;
}

/** The first page stays fresh by itself until somebody scrolls on; then the rest is kept, and news are offered. */
function useTasks(filter: string): List {
  const first = useResource<Page<Task>>(url("/api/v1/tasks", { filter, limit: FIRST }));
  const [rest, setRest] = useState<{ filter: string; base: Task[]; rows: Task[]; cursor: string | null | undefined } | undefined>();
  const [failed, setFailed] = useState<Refusal>();
  const busy = useRef(false);
  const lastGood = useRef<Task[]>();
  const mine = rest?.filter === filter ? rest : undefined;
  const refused = first.error && first.error.status === 400 ? first.error : undefined;
  if (first.data) lastGood.current = first.data.items;

  useEffect(() => {
    setFailed(undefined);
    lastGood.current = undefined;
  }, [filter]);

  const base = mine ? mine.base : first.data?.items;
  const cursor = mine ? mine.cursor : first.data?.next_cursor;
  const length = (base?.length ?? 0) + (mine?.rows.length ?? 0);
  const more = useCallback(() => {
    if (busy.current || !cursor || !base || length >= ROWS_MAX) return;
    busy.current = true;
    get<Page<Task>>(url("/api/v1/tasks", { filter, limit: MORE, cursor }))
      .then((page) => setRest({ filter, base, rows: [...(mine?.rows ?? []), ...page.items], cursor: page.next_cursor }))
      .catch((error: unknown) => setFailed(error instanceof Refusal ? error : undefined))
      .finally(() => {
        busy.current = false;
      });
  }, [filter, cursor, base, mine, length]);

  const rows = base && mine ? [...base, ...mine.rows] : (base ?? (refused ? lastGood.current : undefined));
  return {
    rows,
    complete: base !== undefined && !cursor,
    error: refused ? undefined : (first.error ?? failed),
    refused,
    more,
    stale: mine !== undefined && first.data !== undefined && first.data.items !== mine.base,
    fresh: () => setRest(undefined),
  };
}
