/** Limits on queues, types and keys: what each lets through, how full it is, and whether it holds anything up. */

import { useState } from "preact/hooks";
import { put } from "../api/client";
import type { Limit, LimitScope } from "../api/types";
import { count, plural, span } from "../format";
import { Bar, Button, Card, Empty, Head, Problem, Skeleton } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { inputOf, LimitForm, limitPath, rateText, Standing } from "../parts/limit";
import { ListFoot, useList } from "../parts/list";
import { Table, type Column } from "../parts/table";
import { attempt } from "../parts/toast";
import { link, replaceQuery } from "../route";

const SCOPES: [LimitScope | "", string][] = [
  ["", "All"],
  ["queue", "Queues"],
  ["type", "Types"],
  ["key", "Keys"],
];
const NONE = <span class="faint">–</span>;

/** The tasks that it is about. */
function tasksOf({ scope, name }: Limit): string {
  return scope === "queue" ? link(["queues", name]) : link(["tasks"], { filter: `${scope}:${name}` });
}

/** So many of so many, as a bar where there is room. */
function Of({ now, most, label }: { now: number; most: number | null | undefined; label: string }) {
  if (most == null) return <span class={now ? "num" : "num faint"}>{count(now)}</span>;
  return (
    <span class="busy-cell">
      <Bar value={most > 0 ? now / most : 1} label={label} />
      <span class="num">
        {count(now)} of {count(most)}
      </span>
    </span>
  );
}

export function Limits({ scope }: { scope: string }) {
  const list = useList<Limit>("/api/v1/limits", { scope }, 200);
  const [open, setOpen] = useState<Limit | "new">();
  const close = (): void => setOpen(undefined);
  const saved = (): void => (close(), list.refresh());
  const columns: Column<Limit>[] = [
    {
      title: "Limit on",
      class: "grow",
      cell: (it) => (
        <span class="with-badge scoped">
          <span class="badge">{it.scope}</span>
          <span class="strong clip">{it.name}</span>
        </span>
      ),
    },
    { title: "Now", cell: (it) => <Standing limit={it} /> },
    { title: "Running", class: "busy", cell: (it) => <Of now={it.running} most={it.max_concurrency} label={`Tasks of ${it.name} at once`} /> },
    { title: "Waiting", class: "busy wide", cell: (it) => <Of now={it.waiting} most={it.max_depth} label={`Tasks of ${it.name} that wait`} /> },
    { title: "Starts", class: "num wide", cell: (it) => (it.rate ? rateText(it.rate) : NONE) },
    { title: "Weight", class: "num wider", cell: (it) => (it.weight == null ? NONE : <span class={it.weight === 1 ? "faint" : ""}>{count(it.weight)}</span>) },
    { title: "Ages every", class: "num wider", cell: (it) => (it.ageing ? span(it.ageing.every_seconds * 1000) : NONE) },
    {
      title: "Actions",
      class: "end",
      cell: (it) => (
        <span class="row tight end">
          <Pause limit={it} done={list.refresh} />
          <Button tone="quiet" icon="edit" label={`Change the limit of ${it.scope} ${it.name}`} onClick={() => setOpen(it)} />
        </span>
      ),
    },
  ];
  const rows = list.rows;
  return (
    <>
      <Head title="Limits" sub="How many may run at once, how often they may start, how many may wait. A task must pass the limits of its queue, its type and its key.">
        <div class="segments" role="group" aria-label="Whose limits">
          {SCOPES.map(([word, name]) => (
            <button key={word} type="button" aria-pressed={scope === word} onClick={() => replaceQuery({ scope: word })}>
              {name}
            </button>
          ))}
        </div>
        <Button tone="primary" icon="submit" onClick={() => setOpen("new")}>
          New limit
        </Button>
      </Head>
      <Problem error={list.error} />
      <Card flush>
        {!rows && !list.error && <Skeleton lines={4} height={28} />}
        {rows?.length === 0 && (
          <Empty icon="limits" title={scope ? `No ${scope} has a limit` : "Nothing is limited"}>
            <p>Keys share a queue fairly by themselves. A limit keeps one of them, a type or a queue from taking more than it should:</p>
            <code>windlass limit set key tenant-7 --max-concurrency 5</code>
          </Empty>
        )}
        {rows && rows.length > 0 && (
          <Table label="Limits" columns={columns} rows={rows} id={(it) => `${it.scope}/${it.name}`} href={tasksOf} onEnd={list.more} foot={!list.complete && <ListFoot list={list} one="limit" />} />
        )}
      </Card>
      {open && (
        <Dialog title={open === "new" ? "New limit" : `Limit of ${open.scope} ${open.name}`} onClose={close}>
          {open !== "new" && (
            <p class="does faint">
              {plural(open.running, "task")} running, {count(open.waiting)} waiting. {open.blocked?.text}
            </p>
          )}
          {open === "new" ? <LimitForm scope={choice(scope)} done={saved} back={close} /> : <LimitForm scope={open.scope} name={open.name} limit={open} done={saved} back={close} />}
        </Dialog>
      )}
    </>
  );
}

function choice(scope: string): LimitScope {
  return scope === "queue" || scope === "type" ? scope : "key";
}

function Pause({ limit, done }: { limit: Limit; done: () => void }) {
  const word = limit.paused ? "Resume" : "Pause";
  const what = `${limit.scope} ${limit.name}`;
  const run = (): void => {
    const said = limit.paused ? `${what} runs again` : `Nothing of ${what} starts`;
    void attempt(said, () => put(limitPath(limit.scope, limit.name), { ...inputOf(limit), paused: !limit.paused })).then(done);
  };
  return <Button tone="quiet" icon={limit.paused ? "play" : "pause"} label={`${word} ${what}`} onClick={run} />;
}
