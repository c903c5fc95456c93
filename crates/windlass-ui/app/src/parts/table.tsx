/**
 * A table of which only the rows in sight are in the document.
 *
 * Every row has the same height, so what is in sight is a division. It stays a real table for screen readers: `aria-rowcount`
 * and `aria-rowindex` say what is left out. The link in the first column is what the keyboard moves between.
 */

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { go } from "../route";
import { onMove } from "../keys";

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** `num` for figures, `wide` and `wider` for what narrow screens leave out, `grow` for what takes the rest. */
  class?: string;
}

interface Props<T> {
  label: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  /** Where a row leads. */
  href?: (row: T) => string;
  /** Called when the end comes into sight. */
  onEnd?: () => void;
  /** Below the last row. */
  foot?: ComponentChildren;
  /** Fills the height of the window instead of growing with its rows. */
  tall?: boolean;
}

const ROW = 44;
/** What stands above a list that fills the window, at least. */
const HEAD = 180;
/** Rows beyond what is in sight: at least so many, and twice as many whenever they are chosen anew. */
const AHEAD = 4;

interface View {
  first: number;
  last: number;
}

export function Table<T>({ label, columns, rows, id, href, onEnd, foot, tall = false }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  // A guess until the box has its size: what the window has room for below the head of a page.
  const [view, setView] = useState<View>(() => ({ first: 0, last: Math.ceil((innerHeight - HEAD) / ROW) }));
  const focusAt = useRef<number>();

  const measure = useCallback(() => {
    const element = box.current;
    if (!element) return;
    const top = Math.floor(element.scrollTop / ROW);
    const end = Math.ceil((element.scrollTop + (element.clientHeight || innerHeight)) / ROW);
    // As long as some rows are left on both sides, everything stays as it is.
    setView((old) =>
      old.first <= Math.max(0, top - AHEAD) && old.last >= end + AHEAD && old.last - old.first <= end - top + 6 * AHEAD ? old : { first: Math.max(0, top - 2 * AHEAD), last: end + 2 * AHEAD },
    );
  }, []);

  // One frame after it was laid out: asking sooner would make the browser do that twice before it shows anything.
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    let frame = 0;
    const resized = new ResizeObserver(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(measure);
    });
    resized.observe(element);
    return () => {
      cancelAnimationFrame(frame);
      resized.disconnect();
    };
  }, [measure]);

  const first = Math.min(view.first, rows.length);
  const last = Math.min(rows.length, view.last);

  useEffect(() => {
    if (onEnd && last >= rows.length) onEnd();
  }, [last, rows.length, onEnd]);

  useEffect(
    () =>
      onMove((step) => {
        const current = rowOf(document.activeElement, box.current);
        const next = current === undefined ? (step > 0 ? 0 : rows.length - 1) : current + step;
        if (next < 0 || next >= rows.length) return;
        focusAt.current = next;
        reveal(box.current, next);
        measure();
        focusRow(box.current, next);
      }),
    [rows.length, measure],
  );

  // A row that was out of sight is in the document only now.
  useLayoutEffect(() => {
    if (focusAt.current !== undefined && focusRow(box.current, focusAt.current)) focusAt.current = undefined;
  });

  return (
    <div class={tall ? "table-box tall" : "table-box"} ref={box} onScroll={measure} tabIndex={0} role="region" aria-label={label}>
      <table aria-rowcount={rows.length + 1} aria-label={label}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={column.class}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Spacer rows={first} columns={columns.length} />}
          {rows.slice(first, last).map((row, at) => (
            <tr
              key={id(row)}
              aria-rowindex={first + at + 2}
              data-row={first + at}
              class={href ? "leads" : ""}
              onClick={(event) => {
                if (href && !speaks(event.target) && !getSelection()?.toString()) go(href(row));
              }}
            >
              {columns.map((column, number) => (
                <td key={column.title} class={column.class}>
                  {number === 0 && href ? (
                    <a class="row-link" href={href(row)}>
                      {column.cell(row)}
                    </a>
                  ) : (
                    column.cell(row)
                  )}
                </td>
              ))}
            </tr>
          ))}
          {last < rows.length && <Spacer rows={rows.length - last} columns={columns.length} />}
        </tbody>
      </table>
      {foot}
    </div>
  );
}

function Spacer({ rows, columns }: { rows: number; columns: number }) {
  return (
    <tr aria-hidden="true" class="spacer">
      <td colSpan={columns} style={{ height: rows * ROW }} />
    </tr>
  );
}

/** Buttons and links in a row speak for themselves. */
function speaks(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("a, button, input, select") !== null;
}

function rowOf(element: Element | null, box: HTMLElement | null): number | undefined {
  const row = element && box?.contains(element) ? element.closest<HTMLElement>("tr[data-row]") : null;
  return row?.dataset.row === undefined ? undefined : Number(row.dataset.row);
}

function focusRow(box: HTMLElement | null, at: number): boolean {
  const target = box?.querySelector<HTMLElement>(`tr[data-row="${at}"] a, tr[data-row="${at}"] button`);
  target?.focus({ preventScroll: true });
  return Boolean(target);
}

function reveal(box: HTMLElement | null, at: number): void {
  if (!box) return;
  const top = at * ROW;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + 2 * ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + 2 * ROW - box.clientHeight;
}
