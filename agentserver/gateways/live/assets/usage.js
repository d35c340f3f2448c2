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
      el("p", { class: "quiet" }, "Charges of the last 30 days: the cost of settled work, and the most that work not yet settled may cost."),
      GROUPS.map(([key, title, head]) => el("section", {}, table(title, [
        [head, (row) => row.name || "not known"],
        ["tokens", (row) => count(row.tokens), "number"],
        ["share", bar, "wide"],
        ["cost", (row) => money(row.money) || "-", "number"],
        ["calls", (row) => count(row.calls), "number"],
      ], told[key], `${title}: nothing was charged.`)))),
  };
}
