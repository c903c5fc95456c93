/** Something of the broker on a page: fetched, kept fresh, and never blank once it was there. */

import { effect } from "@preact/signals";
import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Refusal, request } from "./api/client";
import { arrived, underWay } from "./api/early";
import { pulse } from "./live/pulse";

export interface Resource<T> {
  data: T | undefined;
  /** The answer as it came, for payloads that must not go through JSON.parse. */
  text: string | undefined;
  error: Refusal | undefined;
  refresh: () => void;
}

/** A page that changes all the time is asked for at most this often. */
const PAUSE_MS = 700;

interface Seen<T> {
  path: string;
  data?: T;
  text?: string;
  error?: Refusal;
}

/** `path` may be absent while it is not known yet. With `steady` only `refresh` asks again. */
export function useResource<T>(path: string | undefined, options: { steady?: boolean } = {}): Resource<T> {
  const [seen, setSeen] = useState(() => early<T>(path));
  const ask = useRef<() => void>(() => undefined);

  // Before the frame is painted: the request is on its way while the browser draws.
  useLayoutEffect(() => {
    if (path === undefined) return;
    const ended = new AbortController();
    let flying = false;
    let resting = false;
    const here = seen?.path === path;
    let wanted: "no" | "later" | "now" = "no";
    let timer: number | undefined;
    const load = async (urgent: boolean): Promise<void> => {
      if (flying || (resting && !urgent)) {
        wanted = urgent || wanted === "now" ? "now" : "later";
        return;
      }
      clearTimeout(timer);
      flying = true;
      wanted = "no";
      try {
        const text = (await underWay(path)?.catch(() => undefined)) ?? (await request("GET", path, undefined, ended.signal));
        if (ended.signal.aborted) return;
        setSeen((old) => (old?.text === text && old.path === path && !old.error ? old : { path, text, data: JSON.parse(text) as T }));
      } catch (error) {
        if (ended.signal.aborted) return;
        const refusal = error instanceof Refusal ? error : new Refusal(0, "unreadable", "The answer cannot be read.");
        setSeen((old) => (old?.path === path && refusal.status !== 404 ? { ...old, error: refusal } : { path, error: refusal }));
      }
      flying = false;
      if ((wanted as string) === "now") return load(true);
      rest();
    };
    const rest = (): void => {
      resting = true;
      timer = window.setTimeout(() => {
        resting = false;
        if (wanted !== "no") void load(false);
      }, PAUSE_MS);
    };
    ask.current = () => void load(true);
    let first = true;
    const stop = effect(() => {
      pulse.value;
      if (first && here) rest();
      else if (first || !options.steady) void load(false);
      first = false;
    });
    return () => {
      stop();
      ended.abort();
      clearTimeout(timer);
    };
  }, [path, options.steady]);

  const refresh = useCallback(() => ask.current(), []);
  const mine = seen?.path === path ? seen : undefined;
  return { data: mine?.data, text: mine?.text, error: mine?.error, refresh };
}

function early<T>(path: string | undefined): Seen<T> | undefined {
  const text = path === undefined ? undefined : arrived(path);
  if (path === undefined || text === undefined) return undefined;
  try {
    return { path, text, data: JSON.parse(text) as T };
  } catch {
    // Something between here and the broker answered in its place; asked again, the page says so.
    return undefined;
  }
}

/** An act and its standing: what a button shows while it is carried out. */
export function useAct(): { busy: boolean; run: (act: () => Promise<void>) => void; error: Refusal | undefined; clear: () => void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Refusal>();
  const run = useCallback((act: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    act()
      .catch((problem: unknown) => {
        setError(problem instanceof Refusal ? problem : new Refusal(0, "failed", String(problem)));
      })
      .finally(() => setBusy(false));
  }, []);
  return { busy, run, error, clear: () => setError(undefined) };
}
