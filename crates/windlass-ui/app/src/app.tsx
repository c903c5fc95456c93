/** The frame around every page: where one can go, how the connection stands, and the page itself. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Health } from "./api/types";
import { useResource } from "./data";
import { overlay } from "./keys";
import { linkState } from "./live/pulse";
import { Button } from "./parts/basics";
import { Icon, type IconName } from "./parts/icon";
import { Help, Palette } from "./parts/palette";
import { Toasts } from "./parts/toast";
import { pageOf } from "./pages";
import { route } from "./route";
import { isDark, toggle } from "./theme";

const NAV: { href: string; key: string; name: string; icon: IconName }[] = [
  { href: "#/", key: "", name: "Overview", icon: "overview" },
  { href: "#/queues", key: "queues", name: "Queues", icon: "queues" },
  { href: "#/tasks", key: "tasks", name: "Tasks", icon: "tasks" },
  { href: "#/dead", key: "dead", name: "Dead letters", icon: "dead" },
  { href: "#/schedules", key: "schedules", name: "Schedules", icon: "schedules" },
  { href: "#/workflows", key: "workflows", name: "Workflows", icon: "workflows" },
  { href: "#/limits", key: "limits", name: "Limits", icon: "limits" },
  { href: "#/workers", key: "workers", name: "Workers", icon: "workers" },
  { href: "#/operations", key: "operations", name: "Operations", icon: "operations" },
];

const LINKS = {
  connecting: "Connecting…",
  live: "Live",
  polling: "Polling every 2 s",
  paused: "Paused while hidden",
} as const;

export function App() {
  const { path } = route.value;
  const { title, body } = pageOf(route.value);
  const main = useRef<HTMLElement>(null);
  const place = path.join("/");
  const first = useRef(true);
  useEffect(() => {
    document.title = `${title} · Windlass`;
    // Who moves by keyboard or screen reader starts at the head of the new page.
    if (!first.current) main.current?.querySelector<HTMLElement>("h1")?.focus({ preventScroll: true });
    if (!first.current) scrollTo(0, 0);
    first.current = false;
  }, [place]);
  return (
    <div class="shell">
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the page
      </a>
      <Side at={path[0] ?? ""} place={place} />
      <main id="main" ref={main} tabIndex={-1}>
        <div class="page" key={place}>
          {body}
        </div>
      </main>
      <Toasts />
      {overlay.value === "help" && <Help />}
      {overlay.value === "palette" && <Palette />}
    </div>
  );
}

function Side({ at, place }: { at: string; place: string }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [place]);
  return (
    <div class={open ? "side open" : "side"}>
      <header class="brand">
        <a href="#/" class="brand-link">
          <img src="./icon.svg" alt="" width="26" height="26" />
          <span>Windlass</span>
        </a>
        <span class="brand-tools">
          <Button tone="quiet" icon="search" label="Search and commands (Ctrl K)" onClick={() => (overlay.value = "palette")} />
          <span class="menu-button">
            <Button tone="quiet" icon="menu" label="Menu" aria-expanded={open} aria-controls="nav" onClick={() => setOpen(!open)} />
          </span>
        </span>
      </header>
      <nav id="nav" aria-label="Pages">
        <ul>
          {NAV.map((item) => (
            <li key={item.href}>
              <a href={item.href} aria-current={item.key === at || item.key === `${at}s` ? "page" : undefined}>
                <Icon name={item.icon} size={17} />
                {item.name}
              </a>
            </li>
          ))}
        </ul>
        <a class="button primary new" href="#/submit" aria-current={at === "submit" ? "page" : undefined}>
          <Icon name="submit" /> Submit a task
        </a>
      </nav>
      <Foot />
    </div>
  );
}

function Foot() {
  const health = useResource<Health>("/api/v1/health", { steady: true });
  return (
    <footer class="side-foot">
      <p class={`link ${linkState.value}`} role="status" aria-live="polite">
        <i /> {LINKS[linkState.value]}
      </p>
      <div class="row foot-tools">
        <span class="faint version">{health.data ? `v${health.data.version}` : ""}</span>
        <a class="button quiet square" href="./api/docs/" aria-label="API documentation" title="API documentation">
          <Icon name="book" />
        </a>
        <Button tone="quiet" icon="help" label="Shortcuts (?)" onClick={() => (overlay.value = "help")} />
        <Button tone="quiet" icon={isDark.value ? "sun" : "moon"} label={isDark.value ? "Light theme" : "Dark theme"} onClick={toggle} />
      </div>
    </footer>
  );
}
