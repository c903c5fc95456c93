/** What the keyboard can do, and a way to anything by its name. */

import { useState } from "preact/hooks";
import type { Page, Queue } from "../api/types";
import { useResource } from "../data";
import { overlay, PLACES } from "../keys";
import { go, link } from "../route";
import { toggle } from "../theme";
import { Dialog } from "./dialog";

const KEYS: [string, string][] = [
  ["/", "Filter"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["Ctrl K", "Go to anything"],
  ["l", "Light or dark"],
  ["?", "This list"],
];

const close = (): void => {
  overlay.value = undefined;
};

export function Help() {
  return (
    <Dialog title="Shortcuts" onClose={close}>
      <dl class="keys">
        {[...PLACES.map((place): [string, string] => [`g  ${place.key}`, place.name]), ...KEYS].map(([keys, name]) => (
          <div key={keys}>
            <dt>
              {keys.split("  ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{name}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

interface Choice {
  name: string;
  kind: string;
  act: () => void;
}

export function Palette() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const queues = useResource<Page<Queue>>("/api/v1/queues?limit=1000", { steady: true });
  const found = choices(text.trim(), queues.data?.items ?? []);
  const chosen = Math.min(at, found.length - 1);
  const pick = (choice: Choice | undefined): void => {
    close();
    choice?.act();
  };
  return (
    <Dialog title="Go to" onClose={close}>
      <input
        class="input palette-input"
        type="text"
        autoFocus
        placeholder="A page, a queue, a task id, or words of a filter"
        aria-label="Go to"
        role="combobox"
        aria-expanded="true"
        aria-controls="choices"
        aria-activedescendant={found.length ? `choice-${chosen}` : undefined}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") setAt(Math.min(chosen + 1, found.length - 1));
          else if (event.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
          else if (event.key === "Enter") pick(found[chosen]);
          else return;
          event.preventDefault();
        }}
      />
      <ul class="choices" id="choices" role="listbox" aria-label="Choices">
        {found.map((choice, number) => (
          <li key={choice.kind + choice.name} id={`choice-${number}`} role="option" aria-selected={number === chosen} onClick={() => pick(choice)} onMouseMove={() => setAt(number)}>
            <span>{choice.name}</span>
            <span class="faint">{choice.kind}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

const CHOICES_MAX = 12;

function choices(text: string, queues: Queue[]): Choice[] {
  const all: Choice[] = [
    ...PLACES.map((place) => ({ name: place.name, kind: "page", act: () => go(place.href) })),
    ...queues.map((queue) => ({ name: queue.name, kind: "queue", act: () => go(link(["queues", queue.name])) })),
    { name: "Light or dark theme", kind: "command", act: toggle },
    { name: "Keyboard shortcuts", kind: "command", act: () => (overlay.value = "help") },
  ];
  const wanted = text.toLowerCase();
  const named = all.filter((choice) => choice.name.toLowerCase().includes(wanted)).slice(0, CHOICES_MAX);
  if (!text) return named;
  const found = [...named];
  if (/^[A-Za-z0-9._:-]{4,128}$/.test(text)) found.push({ name: text, kind: "task with this id", act: () => go(link(["tasks", text])) });
  found.push({ name: text, kind: "filter tasks", act: () => go(link(["tasks"], { filter: text })) });
  return found;
}
