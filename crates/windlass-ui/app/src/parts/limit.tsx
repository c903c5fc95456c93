/** A limit of a queue, a type or a key: what it says, and the form that sets it. */

import { useState } from "preact/hooks";
import { put, remove, seg } from "../api/client";
import type { Limit, LimitScope } from "../api/types";
import { useAct } from "../data";
import { count, span } from "../format";
import { Button, Problem } from "./basics";
import { Choice, Field } from "./form";
import { say } from "./toast";

/** What can be set. The broker replaces the whole, so the whole is sent. */
const SET = ["max_concurrency", "rate", "weight", "max_depth", "paused", "ageing"] as const;
type LimitInput = { [field in (typeof SET)[number]]?: Limit[field] | undefined };

export const limitPath = (scope: LimitScope, name: string): string => `/api/v1/limits/${scope}/${seg(name)}`;

export function inputOf(limit: Limit): LimitInput {
  return Object.fromEntries(SET.map((field) => [field, limit[field]]));
}

export const rateText = (rate: NonNullable<Limit["rate"]>): string => `${count(rate.count)} in ${span(rate.per_seconds * 1000)}`;

/** Why nothing starts, in a word. */
export function Standing({ limit }: { limit: Limit }) {
  const words: Record<string, [tone: string, text: string]> = {
    limit_paused: ["paused", "paused"],
    limit_full: ["running", "full"],
    rate_limited: ["scheduled", "used up"],
  };
  const [tone, text] = words[limit.blocked?.code ?? ""] ?? ["completed", "open"];
  return (
    <span class={`badge s-${tone}`} title={limit.blocked?.text}>
      {text}
    </span>
  );
}

interface Draft {
  scope: LimitScope;
  name: string;
  at_once: string;
  count: string;
  per: string;
  depth: string;
  weight: string;
  ageing: string;
}

const text = (value: number | null | undefined): string => (value == null ? "" : String(value));
const number = (value: string): number | undefined => (value.trim() === "" ? undefined : Number(value));

function draftOf(scope: LimitScope, name: string, limit: Limit | undefined): Draft {
  return {
    scope,
    name,
    at_once: text(limit?.max_concurrency),
    count: text(limit?.rate?.count),
    per: text(limit?.rate?.per_seconds),
    depth: text(limit?.max_depth),
    weight: text(limit?.weight),
    ageing: text(limit?.ageing?.every_seconds),
  };
}

function bodyOf(it: Draft, paused: boolean): LimitInput {
  const starts = number(it.count);
  const every = number(it.ageing);
  return {
    max_concurrency: number(it.at_once),
    rate: starts === undefined ? undefined : { count: starts, per_seconds: number(it.per) ?? 1 },
    weight: it.scope === "key" ? number(it.weight) : undefined,
    max_depth: number(it.depth),
    paused,
    ageing: it.scope !== "queue" || every === undefined ? undefined : { every_seconds: every },
  };
}

/** Fields that say themselves what is wrong with them. */
const SHOWN = ["name", "max_concurrency", "max_depth", "rate.count", "rate.per_seconds", "weight", "ageing.every_seconds"];

const SCOPES: [LimitScope, string][] = [
  ["key", "A key: a tenant, a customer"],
  ["type", "A type of task"],
  ["queue", "A queue"],
];

interface Props {
  scope: LimitScope;
  /** Absent while it has yet to be chosen. */
  name?: string | undefined;
  limit?: Limit | undefined;
  done: () => void;
  back: () => void;
}

export function LimitForm({ scope, name, limit, done, back }: Props) {
  const [it, setIt] = useState(() => draftOf(scope, name ?? "", limit));
  const act = useAct();
  const set = (field: keyof Draft) => (value: string) => setIt({ ...it, [field]: value });
  const wrong = (field: string): string | undefined => act.error?.fields.find((problem) => problem.field === field)?.message;
  const path = limitPath(it.scope, it.name);
  const save = (event: SubmitEvent): void => {
    event.preventDefault();
    act.run(async () => {
      await put(path, bodyOf(it, limit?.paused ?? false));
      say("The limit holds from now on");
      done();
    });
  };
  const clear = (): void =>
    act.run(async () => {
      await remove(path);
      say("The limit is gone");
      done();
    });
  return (
    <form class="form limit-form" onSubmit={save}>
      {name === undefined && (
        <div class="pair">
          <Choice label="Of" value={it.scope} set={set("scope")} choices={SCOPES} />
          <Field label="Name" value={it.name} set={set("name")} error={wrong("name")} required placeholder={it.scope === "type" ? "email.send" : it.scope === "key" ? "tenant-7" : "mail"} />
        </div>
      )}
      <Field label="Tasks at once" type="number" value={it.at_once} set={set("at_once")} error={wrong("max_concurrency")} placeholder="no limit" />
      <Field label="Tasks that may wait" type="number" value={it.depth} set={set("depth")} error={wrong("max_depth")} placeholder="no limit" hint={it.depth === "" ? undefined : "More are refused with queue_full."} />
      <div class="pair">
        <Field label="Starts" type="number" value={it.count} set={set("count")} error={wrong("rate.count")} placeholder="no limit" />
        <Field label="in seconds" type="number" step="any" value={it.per} set={set("per")} error={wrong("rate.per_seconds")} placeholder="1" />
      </div>
      {it.scope === "key" && <Field label="Weight" type="number" value={it.weight} set={set("weight")} error={wrong("weight")} placeholder="1" hint="Its share of a queue beside other keys." />}
      {it.scope === "queue" && <Field label="One step of priority for every … seconds of waiting" type="number" step="any" value={it.ageing} set={set("ageing")} error={wrong("ageing.every_seconds")} placeholder="never" />}
      <Problem error={act.error?.fields.some((problem) => SHOWN.includes(problem.field)) ? undefined : act.error} />
      <div class="row">
        <Button type="submit" tone="primary" busy={act.busy} disabled={it.name === ""}>
          Save
        </Button>
        <Button onClick={back}>Back</Button>
        {limit && (
          <Button tone="danger" busy={act.busy} onClick={clear}>
            Remove
          </Button>
        )}
      </div>
    </form>
  );
}
