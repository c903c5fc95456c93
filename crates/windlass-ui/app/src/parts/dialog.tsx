/** A question in front of the page, by the browser's own dialog: it keeps the focus and closes on Escape. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { useAct } from "../data";
import { Button, Problem } from "./basics";

export function Dialog({ title, onClose, children, wide = false }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "dialog wide" : "dialog"}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-inner">
        <header class="dialog-head">
          <h2 id="dialog-title">{title}</h2>
          <Button tone="quiet" icon="cancel" label="Close" onClick={onClose} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, act, children, onAgree, onClose }: { title: string; act: string; children: ComponentChildren; onAgree: () => Promise<void>; onClose: () => void }) {
  const doing = useAct();
  return (
    <Dialog title={title} onClose={onClose}>
      <p class="does">{children}</p>
      <Problem error={doing.error} />
      <div class="row end">
        <Button onClick={onClose}>Back</Button>
        <Button
          tone="danger"
          busy={doing.busy}
          onClick={() =>
            doing.run(async () => {
              await onAgree();
              onClose();
            })
          }
        >
          {act}
        </Button>
      </div>
    </Dialog>
  );
}
