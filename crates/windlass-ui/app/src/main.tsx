import { render } from "preact";
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
start();
const root = document.getElementById("app");
if (root) render(<App />, root);
