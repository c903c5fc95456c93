/** Short messages about what was done; said politely by screen readers. */

import { signal } from "@preact/signals";
import { Refusal } from "../api/client";

interface Message {
  id: number;
  text: string;
  bad: boolean;
}

const SHOWN_MS = 5000;
const SHOWN_MAX = 3;
const messages = signal<Message[]>([]);
let next = 0;

export function say(text: string, bad = false): void {
  const id = next++;
  messages.value = [...messages.value, { id, text, bad }].slice(-SHOWN_MAX);
  setTimeout(() => {
    messages.value = messages.value.filter((message) => message.id !== id);
  }, SHOWN_MS);
}

/** Carries something out and says what came of it. */
export async function attempt(done: string, act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    say(done);
    return true;
  } catch (error) {
    say(error instanceof Refusal ? error.message : String(error), true);
    return false;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {messages.value.map((message) => (
        <p key={message.id} class={message.bad ? "toast bad" : "toast"}>
          {message.text}
        </p>
      ))}
    </div>
  );
}
