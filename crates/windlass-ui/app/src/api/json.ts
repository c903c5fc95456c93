/**
 * JSON as text. Payloads are shown, copied and sent again exactly as they came: a number beyond 2^53 or a key that stands
 * twice would not survive JSON.parse, so nothing here goes through it.
 */

export type Kind = "key" | "string" | "number" | "word" | "mark" | "space";

export interface Token {
  kind: Kind;
  text: string;
}

const PIECE = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]|\s+/gy;

/** The tokens of a valid JSON text. What cannot be read is returned as one piece, so nothing is ever lost. */
export function tokens(text: string): Token[] {
  const found: Token[] = [];
  PIECE.lastIndex = 0;
  let end = 0;
  for (let match = PIECE.exec(text); match; match = PIECE.exec(text)) {
    const piece = match[0];
    end = PIECE.lastIndex;
    const first = piece.charAt(0);
    let kind: Kind = "word";
    if (first === '"') kind = "string";
    else if (first === "-" || (first >= "0" && first <= "9")) kind = "number";
    else if ("{}[],:".includes(first)) kind = "mark";
    else if (piece.trim() === "") kind = "space";
    if (piece === ":") markKey(found);
    if (kind !== "space") found.push({ kind, text: piece });
  }
  if (end < text.length) found.push({ kind: "word", text: text.slice(end) });
  return found;
}

function markKey(found: Token[]): void {
  const last = found[found.length - 1];
  if (last?.kind === "string") last.kind = "key";
}

/** The tokens with line breaks and two spaces per level. */
export function indented(source: Token[]): Token[] {
  const out: Token[] = [];
  let depth = 0;
  const line = (): void => void out.push({ kind: "space", text: `\n${"  ".repeat(depth)}` });
  source.forEach((token, at) => {
    const before = source[at - 1]?.text;
    const after = source[at + 1]?.text;
    if (token.kind !== "mark") out.push(token);
    else if (token.text === "{" || token.text === "[") {
      out.push(token);
      depth += 1;
      if (after !== "}" && after !== "]") line();
    } else if (token.text === "}" || token.text === "]") {
      depth = Math.max(0, depth - 1);
      if (before !== "{" && before !== "[") line();
      out.push(token);
    } else if (token.text === ",") {
      out.push(token);
      line();
    } else out.push({ kind: "mark", text: ": " });
  });
  return out;
}

export function pretty(text: string): string {
  return indented(tokens(text))
    .map((token) => token.text)
    .join("");
}

/** The text of a field of the outermost object, as it stands there. */
export function rawField(text: string, field: string): string | undefined {
  const name = JSON.stringify(field);
  let depth = 0;
  let start = -1;
  let lastString: { text: string; depth: number } | undefined;
  PIECE.lastIndex = 0;
  for (let match = PIECE.exec(text); match; match = PIECE.exec(text)) {
    const piece = match[0];
    if (start >= 0 && depth === 1 && (piece === "," || piece === "}")) return text.slice(start, match.index).trim();
    if (piece === "{" || piece === "[") depth += 1;
    else if (piece === "}" || piece === "]") depth -= 1;
    else if (piece === ":" && depth === 1 && lastString?.text === name && lastString.depth === 1) start = PIECE.lastIndex;
    if (piece.trim() !== "") lastString = piece.startsWith('"') ? { text: piece, depth } : undefined;
  }
  return undefined;
}

/** What is wrong with a text as JSON, with the place, or nothing. */
export function mistake(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const at = /position (\d+)/.exec(message)?.[1];
    if (text.trim() === "") return "It is empty; write null if there is nothing to say.";
    if (at === undefined || message.includes("line ")) return message;
    const before = text.slice(0, Number(at)).split("\n");
    return `${message.replace(/ in JSON at position \d+.*/, "")} (line ${before.length}, column ${(before.at(-1) ?? "").length + 1})`;
  }
}

/** As an argument of a POSIX shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
