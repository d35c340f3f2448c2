// Usage: what language models were charged, by listener, model and principal.

import { read } from "./api.js";
import { count, el, money, table } from "./dom.js";

const GROUPS = [["listeners", "By agent", "agent"], ["models", "By model", "model"], ["principals", "By principal", "principal"]];

export async function show() {
  const told = await read("usage");
  const most = Math.max(1, ...GROUPS.flatMap(([key]) => told[key].map((row) => row.tokens)));
  const bar = (row) => {
    const node = el("span", { class: "bar", "aria-hidden": "true" }, el("span", {}));
    node.firstChild.style.setProperty("--part", String(row.tokens / most));
    return node;
  };
  return {
    node: el("div", { class: "page" }, el("h1", {}, "Usage"),
      el("p", { class: "quiet" }, "What is charged: what work has cost, and of work that is not settled the most that it may cost. ",
        "Of the last 30 days."),
      GROUPS.map(([key, title, head]) => el("section", {}, table(title, [
        [head, (row) => row.name || "not known"],
        ["tokens", (row) => count(row.tokens), "number"],
        ["", bar, "wide"],
        ["cost", (row) => money(row.money) || "-", "number"],
        ["calls", (row) => count(row.calls), "number"],
      ], told[key], `${title}: nothing was charged.`)))),
  };
}
