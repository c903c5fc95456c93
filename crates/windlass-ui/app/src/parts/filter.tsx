/** The line that says which tasks are meant. What it takes is in docs/operations.md; the broker reads it and names mistakes. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Refusal } from "../api/client";
import { STATES } from "../api/types";
import { stateLabel } from "../format";
import { Icon } from "./icon";

const WORDS: [string, string][] = [
  ["state:dead_letter", "by state; several with commas"],
  ["queue:mail", "by queue, or its beginning with *"],
  ["type:email.*", "by type"],
  ["error:timeout", "part of the last error"],
  ["priority:>=200", "by number, range or class"],
  ["since:2h", "changed in the last two hours"],
  ["created:1d", "submitted in the last day"],
  ["worker:w1", "who holds it, or held it last"],
  ["key:tenant-7", "by key of flow"],
  ["-type:report", "a minus takes all others"],
];

const TYPING_MS = 250;

interface Props {
  filter: string;
  refused: Refusal | undefined;
  onChange: (filter: string) => void;
}

export function FilterBar({ filter, refused, onChange }: Props) {
  const [text, setText] = useState(filter);
  const [help, setHelp] = useState(false);
  const timer = useRef<number>();
  const sent = useRef(filter);
  useEffect(() => {
    // The address changed by other means than typing here.
    if (filter !== sent.current) setText(filter);
    sent.current = filter;
  }, [filter]);
  const send = (next: string): void => {
    clearTimeout(timer.current);
    sent.current = next.trim();
    onChange(next.trim());
  };
  const type = (next: string): void => {
    setText(next);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => send(next), TYPING_MS);
  };
  const put = (next: string): void => {
    setText(next);
    send(next);
  };
  const chosen = statesIn(text);
  return (
    <div class="filter">
      <form
        role="search"
        class={refused ? "filter-line bad" : "filter-line"}
        onSubmit={(event) => {
          event.preventDefault();
          send(text);
        }}
      >
        <Icon name="search" />
        <input
          data-filter
          type="text"
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          placeholder="state:dead_letter type:email.* error:timeout since:2h"
          aria-label="Filter"
          aria-invalid={refused !== undefined}
          aria-describedby="filter-said"
          value={text}
          onInput={(event) => type(event.currentTarget.value)}
        />
        {text && (
          <button type="button" class="plain-button" aria-label="Clear the filter" title="Clear the filter" onClick={() => put("")}>
            <Icon name="cancel" />
          </button>
        )}
        <button type="button" class="plain-button" aria-expanded={help} aria-controls="filter-words" aria-label="What a filter can say" title="What a filter can say" onClick={() => setHelp(!help)}>
          <Icon name="help" />
        </button>
        <kbd aria-hidden="true">/</kbd>
      </form>
      <p id="filter-said" class="filter-said" role="status">
        {refused?.message ?? ""}
      </p>
      <div class="chips" role="group" aria-label="States">
        {STATES.map((state) => (
          <button key={state} type="button" class={`chip s-${state}`} aria-pressed={chosen.includes(state)} onClick={() => put(withState(text, state))}>
            <i class={`dot s-${state}`} />
            {stateLabel(state)}
          </button>
        ))}
      </div>
      {help && (
        <ul class="filter-words" id="filter-words">
          {WORDS.map(([word, meaning]) => (
            <li key={word}>
              <button type="button" onClick={() => put(`${text} ${word}`.trim())}>
                {word}
              </button>
              <span class="faint">{meaning}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const STATE_WORD = /(^|\s)state:(\S+)/;

function statesIn(text: string): string[] {
  return STATE_WORD.exec(text)?.[2]?.split(",") ?? [];
}

/** The filter with this state added to those it names, or taken out of them. */
function withState(text: string, state: string): string {
  const named = statesIn(text);
  const left = named.includes(state) ? named.filter((it) => it !== state) : [...named, state];
  const word = left.length > 0 ? `state:${left.join(",")}` : "";
  if (STATE_WORD.test(text)) return text.replace(STATE_WORD, (_all, space: string) => (word ? space + word : "")).trim();
  return `${word} ${text}`.trim();
}
