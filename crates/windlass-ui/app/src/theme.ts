/** Light, dark, or as the system says. The colours themselves are in style/tokens.css. */

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

const KEY = "windlass.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system";
  }
}

export const theme = signal<Theme>(stored());
/** What is on the screen; charts draw themselves again when it changes. */
export const isDark = signal(false);

export function applyTheme(): void {
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  isDark.value = theme.value === "dark" || (theme.value === "system" && dark.matches);
}
dark.addEventListener("change", applyTheme);

export function choose(next: Theme): void {
  theme.value = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
  applyTheme();
}

export function toggle(): void {
  choose(isDark.value ? "light" : "dark");
}
