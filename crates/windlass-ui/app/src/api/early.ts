/** What `public/first.js` asked for before this script was there. Each answer is good for one taker, and only for a while. */

interface Early {
  /** The answer, once it is here. */
  text?: string | undefined;
  answer: Promise<string>;
}

const FRESH_MS = 5000;

const asked: Map<string, Early> = (globalThis as { windlassEarly?: Map<string, Early> }).windlassEarly ?? new Map();
setTimeout(() => asked.clear(), FRESH_MS);

/** An answer that is here already, so that the first thing drawn is the page with its rows. */
export function arrived(path: string): string | undefined {
  const text = asked.get(path)?.text;
  if (text !== undefined) asked.delete(path);
  return text;
}

/** An answer that is on its way. */
export function underWay(path: string): Promise<string> | undefined {
  const early = asked.get(path);
  asked.delete(path);
  return early?.answer;
}

/** When everything that was asked for is here, or was refused. */
export async function settled(): Promise<void> {
  await Promise.allSettled([...asked.values()].map((it) => it.answer));
}
