// Schedules: messages at set times, when next, and which ones an operator has paused.

import { read } from "./api.js";
import { day, el, table } from "./dom.js";

export async function section() {
  const rows = await read("schedules");
  return rows.length > 0 && el("section", {}, table("Schedules", [
    ["schedule", (row) => row.name],
    ["listener", (row) => row.listener],
    ["due", (row) => row.recurrence],
    ["next", (row) => (row.paused ? el("b", { class: "s-warn" }, `paused by ${row.paused}`) : day(row.due))],
    ["order", (row) => (row.ordered ? "run ordered" : "")],
  ], rows, "Nothing is sent at set times."));
}
