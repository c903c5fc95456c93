/** The small parts that every page is made of. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Refusal } from "../api/client";
import type { StateCounts, StateName } from "../api/types";
import { STATES } from "../api/types";
import { count, distance, exactly, stateLabel } from "../format";
import { now } from "../live/pulse";
import { Icon, type IconName } from "./icon";

export function StateBadge({ state }: { state: string }) {
  return <span class={`badge s-${state}`}>{stateLabel(state)}</span>;
}

interface ButtonProps extends Omit<JSX.ButtonHTMLAttributes<HTMLButtonElement>, "icon"> {
  icon?: IconName;
  tone?: "plain" | "primary" | "danger" | "quiet";
  busy?: boolean;
  /** Only the icon is shown; this is its name. */
  label?: string;
}

export function Button({ icon, tone = "plain", busy = false, label, children, disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      class={`button ${tone} ${children ? "" : "square"}`}
      disabled={disabled || busy}
      aria-busy={busy}
      aria-label={label ?? rest["aria-label"]}
      title={label ?? rest.title}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function Card(props: { title?: ComponentChildren; side?: ComponentChildren; children: ComponentChildren; flush?: boolean; class?: string }) {
  return (
    <section class={`card ${props.class ?? ""}`}>
      {(props.title || props.side) && (
        <header class="card-head">
          <h2>{props.title}</h2>
          {props.side && <div class="row">{props.side}</div>}
        </header>
      )}
      <div class={props.flush ? "card-flush" : "card-body"}>{props.children}</div>
    </section>
  );
}

/** The first lines of a page: where we are, and what can be done here. */
export function Head({ title, sub, children, back }: { title: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren; back?: { href: string; text: string } | undefined }) {
  return (
    <header class="head">
      <div class="head-text">
        {back && (
          <a class="back" href={back.href}>
            <Icon name="left" size={14} /> {back.text}
          </a>
        )}
        <h1 tabIndex={-1}>{title}</h1>
        {sub && <p class="sub">{sub}</p>}
      </div>
      {children && <div class="row actions">{children}</div>}
    </header>
  );
}

export function Empty({ icon = "inbox", title, children }: { icon?: IconName; title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name={icon} size={22} />
      </span>
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

export function Problem({ error }: { error: Refusal | undefined }) {
  if (!error) return null;
  return (
    <div class="problem" role="alert">
      <Icon name="dead" />
      <span>{error.message}</span>
    </div>
  );
}

/** Lines where something will be, of the height that it will have. */
export function Skeleton({ lines = 3, height = 16 }: { lines?: number; height?: number }) {
  return (
    <div class="skeletons" aria-hidden="true">
      {Array.from({ length: lines }, (_, at) => (
        <span key={at} class="skeleton" style={{ height, width: `${92 - ((at * 17) % 45)}%` }} />
      ))}
    </div>
  );
}

/** An age that grows by itself. The exact moment is in its title, which is written when a pointer comes: dates are slow to format. */
export function Ago({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="faint">–</span>;
  return (
    <time dateTime={at} onMouseEnter={(event) => (event.currentTarget.title = exactly(at))}>
      {distance(at, now.value)}
    </time>
  );
}

/** What is done first, then what is going on, then what is held up. */
export const BY_PROGRESS = ["completed", "running", "pending", "retrying", "scheduled", "blocked", "cancelled", "dead_letter"] as const;

/** How many tasks are in which state, as one bar. Its text is what a screen reader says. */

export function StateBar({ counts, states = STATES, height = 8 }: { counts: StateCounts; states?: readonly StateName[]; height?: number }) {
  const shown = states.filter((state) => counts[state] > 0);
  const total = shown.reduce((sum, state) => sum + counts[state], 0);
  const text = shown.map((state) => `${count(counts[state])} ${stateLabel(state)}`).join(", ") || "no tasks";
  return (
    <div class="statebar" role="img" aria-label={text} title={text} style={{ height }}>
      {shown.map((state) => (
        <span key={state} class={`fill s-${state}`} style={{ flexGrow: counts[state] / total }} />
      ))}
    </div>
  );
}

export function Bar({ value, label }: { value: number; label: string }) {
  const part = Math.min(1, Math.max(0, value));
  return (
    <div class="bar" role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(part * 100)}>
      <span style={{ width: `${part * 100}%` }} />
    </div>
  );
}

export function Copy({ text, label, children }: { text: string | (() => string); label: string; children?: ComponentChildren }) {
  const [copied, setCopied] = useState(false);
  const timer = useRef<number>();
  useEffect(() => () => clearTimeout(timer.current), []);
  const copy = (): void => {
    void navigator.clipboard?.writeText(typeof text === "string" ? text : text()).then(() => {
      setCopied(true);
      clearTimeout(timer.current);
      timer.current = window.setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <Button tone={children ? "plain" : "quiet"} icon={copied ? "check" : "copy"} label={copied ? "Copied" : label} onClick={copy}>
      {children}
    </Button>
  );
}

export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
