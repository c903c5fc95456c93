/** Shortcuts. `g` and a letter goes to a page, `/` to the filter, `j` and `k` through rows, `?` says all of them. */

import { signal } from "@preact/signals";
import { go } from "./route";
import { toggle } from "./theme";

export const overlay = signal<"help" | "palette" | undefined>(undefined);

export const PLACES: { key: string; href: string; name: string }[] = [
  { key: "o", href: "#/", name: "Overview" },
  { key: "q", href: "#/queues", name: "Queues" },
  { key: "t", href: "#/tasks", name: "Tasks" },
  { key: "d", href: "#/dead", name: "Dead letters" },
  { key: "s", href: "#/schedules", name: "Schedules" },
  { key: "f", href: "#/workflows", name: "Workflows" },
  { key: "m", href: "#/limits", name: "Limits" },
  { key: "w", href: "#/workers", name: "Workers" },
  { key: "p", href: "#/operations", name: "Operations" },
  { key: "n", href: "#/submit", name: "Submit a task" },
  { key: "c", href: "#/schedule", name: "New schedule" },
];

/** How long the second letter may take. */
const PAIR_MS = 1200;
let goUntil = 0;

type Mover = (step: 1 | -1) => void;
const movers: Mover[] = [];

/** Takes `j` and `k` until the returned function is called; the last one to ask gets them. */
export function onMove(mover: Mover): () => void {
  movers.push(mover);
  return () => {
    movers.splice(movers.indexOf(mover), 1);
  };
}

function writing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function listen(): void {
  addEventListener("keydown", (event) => {
    if (event.key === "k" && (event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      overlay.value = overlay.value === "palette" ? undefined : "palette";
      return;
    }
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    if (writing(event.target)) {
      if (event.key === "Escape" && event.target instanceof HTMLElement && !overlay.value) event.target.blur();
      return;
    }
    // A dialog keeps its keys to itself.
    if (document.querySelector("dialog[open]")) return;
    if (press(event.key)) event.preventDefault();
  });
}

function press(key: string): boolean {
  if (Date.now() < goUntil) {
    goUntil = 0;
    const place = PLACES.find((it) => it.key === key);
    if (place) go(place.href);
    return place !== undefined;
  }
  switch (key) {
    case "g":
      goUntil = Date.now() + PAIR_MS;
      return true;
    case "/": {
      const field = document.querySelector<HTMLInputElement>("[data-filter]");
      field?.focus();
      field?.select();
      return field !== null;
    }
    case "j":
    case "k":
      movers.at(-1)?.(key === "j" ? 1 : -1);
      return movers.length > 0;
    case "?":
      overlay.value = "help";
      return true;
    case "l":
      toggle();
      return true;
    default:
      return false;
  }
}
