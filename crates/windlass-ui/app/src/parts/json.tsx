/** JSON as it came, indented and coloured. Every piece is a text node: nothing in it can become markup. */

import { useMemo, useState } from "preact/hooks";
import { indented, pretty, tokens } from "../api/json";
import { bytes } from "../format";
import { Button, Copy } from "./basics";

/** Beyond this the rest is shown on request: a payload may have 10 MB. */
const SHOWN_MAX = 20_000;
/** Beyond this it is shown without colours. */
const COLOURED_MAX = 200_000;

export function Json({ text, label }: { text: string; label: string }) {
  const [whole, setWhole] = useState(false);
  const long = text.length > SHOWN_MAX;
  const shown = whole || !long ? text : text.slice(0, SHOWN_MAX);
  const pieces = useMemo(() => (shown.length > COLOURED_MAX ? undefined : indented(tokens(shown))), [shown]);
  return (
    <div class="code">
      <div class="code-tools">
        <Copy text={() => pretty(text)} label={`Copy ${label}`} />
      </div>
      <pre tabIndex={0} aria-label={label}>
        {pieces ? pieces.map((piece, at) => (piece.kind === "space" || piece.kind === "mark" ? piece.text : <span key={at} class={`j-${piece.kind}`}>{piece.text}</span>)) : shown}
      </pre>
      {long && !whole && (
        <div class="code-more">
          <Button tone="quiet" onClick={() => setWhole(true)}>
            Show all {bytes(text.length)}
          </Button>
        </div>
      )}
    </div>
  );
}

export function Text({ text, label }: { text: string; label: string }) {
  return (
    <div class="code">
      <div class="code-tools">
        <Copy text={text} label={`Copy ${label}`} />
      </div>
      <pre tabIndex={0} aria-label={label} class="wrap">
        {text}
      </pre>
    </div>
  );
}
