/** The fields that forms are made of. */

import { pretty } from "../api/json";
import { Button } from "./basics";

interface FieldProps {
  label: string;
  value: string;
  set: (text: string) => void;
  error?: string | undefined;
  type?: string;
  required?: boolean;
  readOnly?: boolean;
  step?: string;
  placeholder?: string;
  list?: string;
  /** Said below it. */
  hint?: string | undefined;
}

export function Field({ label, value, set, error, hint, type = "text", ...rest }: FieldProps) {
  return (
    <label class={error ? "field bad" : "field"}>
      <span>{label}</span>
      <input class="input" type={type} min={type === "number" ? 0 : undefined} value={value} autocomplete="off" spellcheck={false} aria-invalid={error !== undefined} onInput={(event) => set(event.currentTarget.value)} {...rest} />
      {(error ?? hint) && <small>{error ?? hint}</small>}
    </label>
  );
}

export function Choice({ label, value, set, choices }: { label: string; value: string; set: (value: string) => void; choices: [value: string, text: string][] }) {
  return (
    <label class="field">
      <span>{label}</span>
      <select class="input" value={value} onChange={(event) => set(event.currentTarget.value)}>
        {choices.map(([name, text]) => (
          <option key={name} value={name}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Editor({ text, set, wrong, rows = 12 }: { text: string; set: (text: string) => void; wrong: string | undefined; rows?: number }) {
  return (
    <div class={wrong ? "field bad" : "field"}>
      <span class="editor-head">
        <label for="payload">Payload, JSON</label>
        <Button tone="quiet" disabled={wrong !== undefined} onClick={() => set(pretty(text))}>
          Tidy up
        </Button>
      </span>
      <textarea id="payload" class="input editor" rows={rows} spellcheck={false} autocomplete="off" aria-invalid={wrong !== undefined} aria-describedby="payload-said" value={text} onInput={(event) => set(event.currentTarget.value)} />
      <small id="payload-said" role="status">
        {wrong ?? "Valid JSON"}
      </small>
    </div>
  );
}
