/** A list of the broker that is read on as one scrolls. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, Refusal, url } from "../api/client";
import type { Page } from "../api/types";
import { useResource } from "../data";
import { count } from "../format";
import { Button } from "./basics";

const MORE = 200;
/** What one page of the browser keeps; further back one goes by a narrower filter. */
const ROWS_MAX = 10_000;

export interface List<T> {
  rows: T[] | undefined;
  complete: boolean;
  error: Refusal | undefined;
  more: () => void;
  /** The first rows have changed since somebody scrolled on. */
  stale: boolean;
  fresh: () => void;
  refresh: () => void;
}

type Query = Record<string, string | undefined>;

/** The first rows stay fresh by themselves until somebody scrolls on; then the rest is kept, and news are offered. */
export function useList<T>(path: string, query: Query, firstRows: number): List<T> {
  const asked = url(path, { ...query, limit: firstRows });
  const first = useResource<Page<T>>(asked);
  const [rest, setRest] = useState<{ asked: string; base: T[]; rows: T[]; cursor: string | null | undefined } | undefined>();
  const [failed, setFailed] = useState<Refusal>();
  const busy = useRef(false);
  const mine = rest?.asked === asked ? rest : undefined;
  useEffect(() => setFailed(undefined), [asked]);

  const base = mine ? mine.base : first.data?.items;
  const cursor = mine ? mine.cursor : first.data?.next_cursor;
  const length = (base?.length ?? 0) + (mine?.rows.length ?? 0);
  const more = useCallback(() => {
    if (busy.current || !cursor || !base || length >= ROWS_MAX) return;
    busy.current = true;
    get<Page<T>>(url(path, { ...query, limit: MORE, cursor }))
      .then((page) => setRest({ asked, base, rows: [...(mine?.rows ?? []), ...page.items], cursor: page.next_cursor }))
      .catch((error: unknown) => setFailed(error instanceof Refusal ? error : undefined))
      .finally(() => {
        busy.current = false;
      });
  }, [asked, cursor, base, mine, length]);

  return {
    rows: base && mine ? [...base, ...mine.rows] : base,
    complete: base !== undefined && !cursor,
    error: first.error ?? failed,
    more,
    stale: mine !== undefined && first.data !== undefined && first.data.items !== mine.base,
    fresh: () => setRest(undefined),
    refresh: first.refresh,
  };
}

/** Below the last row: how many there are, and whether there is news above. */
export function ListFoot({ list, one }: { list: List<unknown>; one: string }) {
  const shown = list.rows?.length ?? 0;
  const words = list.complete ? (shown === 1 ? one : `${one}s`) : "shown, more below";
  return (
    <div class="table-foot">
      <span>{shown === 0 ? "Looking further back…" : `${count(shown)} ${words}`}</span>
      {list.stale && (
        <Button tone="quiet" icon="retry" onClick={list.fresh}>
          There is news: show the latest
        </Button>
      )}
    </div>
  );
}
