/*
 * Runs before the script of the page is there: puts the chosen theme on, and asks the broker for what the page will show, so
 * that the answer comes while the script is still being read. `src/api/early.ts` takes the answers.
 */
(() => {
  try {
    const theme = localStorage.getItem("windlass.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Without storage it is as the system says.
  }
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [area = "", name] = path.split("/").filter(Boolean);
  const asked = new Map();
  const ask = (from) => {
    const early = { text: undefined, answer: undefined };
    early.answer = fetch(`.${from}`).then(async (response) => {
      if (!response.ok) throw new Error("asked again by who shows the refusal");
      return (early.text = await response.text());
    });
    early.answer.catch(() => undefined);
    asked.set(from, early);
  };
  // Lists that open with one request; pages of one thing ask as they are drawn.
  const LISTS = {
    queues: "/api/v1/queues?limit=200",
    dead: "/api/v1/dlq/groups",
    schedules: "/api/v1/schedules?limit=200",
    workflows: "/api/v1/workflows?limit=200",
    workers: "/api/v1/workers?limit=200",
    operations: "/api/v1/operations?limit=200",
  };
  if (area === "tasks" && name === undefined) {
    const filter = new URLSearchParams(query).get("filter");
    ask(`/api/v1/tasks?${new URLSearchParams({ ...(filter ? { filter } : {}), limit: "50" })}`);
  } else if (area === "limits") {
    const scope = new URLSearchParams(query).get("scope");
    ask(`/api/v1/limits?${new URLSearchParams({ ...(scope ? { scope } : {}), limit: "200" })}`);
  } else if (area === "") {
    ask("/api/v1/stats");
  } else if (name === undefined && Object.hasOwn(LISTS, area)) {
    ask(LISTS[area]);
  }
  if (area === "" || (area === "queues" && name !== undefined)) {
    const charts = document.createElement("link");
    charts.rel = "modulepreload";
    charts.href = "./charts.js";
    document.head.append(charts);
  }
  globalThis.windlassEarly = asked;
})();
