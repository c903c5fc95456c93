import { render } from "preact";
import { settled } from "./api/early";
import { App } from "./app";
import { listen } from "./keys";
import { start } from "./live/socket";
import { applyTheme } from "./theme";
import "./style/tokens.css";
import "./style/base.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/table.css";
import "./style/pages.css";

applyTheme();
listen();

/** Longer than this nobody looks at an empty window; an answer that is nearly there saves drawing the page twice. */
const HOLD_MS = 40;

const root = document.getElementById("app");
if (root) void Promise.race([settled(), new Promise((resolve) => setTimeout(resolve, HOLD_MS))]).then(() => show(root));

/** The socket waits until the page is on the screen: it has nothing to tell before. */
function show(root: HTMLElement): void {
  render(<App />, root);
  requestAnimationFrame(() => setTimeout(start));
}
