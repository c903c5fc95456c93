/** Where we are: `#/tasks/abc?filter=…`. The address bar is the only place that holds it. */

import { computed, signal } from "@preact/signals";

export interface Route {
  /** The parts of the path, decoded. */
  path: string[];
  query: URLSearchParams;
}

const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});

export const route = computed<Route>(() => {
  const [path = "", query = ""] = split(hash.value.replace(/^#\/?/, ""));
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
});

function split(text: string): [string, string] {
  const at = text.indexOf("?");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function link(path: string[], query: Record<string, string | undefined> = {}): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) words.set(name, value);
  const text = words.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(to: string): void {
  location.hash = to;
}

/** Changes the query of the page without a step in the history, as typing in a filter should. */
export function replaceQuery(query: Record<string, string | undefined>): void {
  history.replaceState(null, "", link(route.peek().path, query));
  hash.value = location.hash;
}
