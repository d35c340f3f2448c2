// The list of conversations, with its search.

import { find, paced } from "./api.js";
import { show as both } from "./compare.js";
import { show as one } from "./conversation.js";
import { count, day, el, link, money, pill, put, replace, spaced, table } from "./dom.js";
import { show as attempt } from "./trial.js";

export async function show([key, typed = "", after = ""], frame) {
  if (key && key !== "where" && typed === "compare") return both([key, after]);
  if (key === "try") return attempt("", typed === ANY ? "" : typed);
  if (key && key !== "where" && typed === "try") return attempt(key);
  const where = typed === ANY ? "" : typed;
  return key && key !== "where" ? one(key, frame) : all(where, after, frame);
}

const ANY = "*"; // stands for no filter in an address, which has no empty part

// Filters that the page offers as links: the filter is in the address, so any of them can be saved and shared.
const VIEWS = [["All", ""], ["Open", "state=open"], ["Refused", "refused=yes"], ["Failed", "failed=yes"], ["Costly", "cost>=1"], ["Slow", "duration>=1m"]];

// The filters of the reader's own days; a day in a typed condition is one of UTC.
function days() {
  const midnight = (back) => {
    const at = new Date();
    at.setDate(at.getDate() - back);
    at.setHours(0, 0, 0, 0);
    return at.toISOString();
  };
  return [["Today", `opened>=${midnight(0)}`], ["Yesterday", `opened>=${midnight(1)} opened<${midnight(0)}`]];
}

const STATES = { open: "message", suspended: "warn" }; // kinds of the words for a state

function view(title, filter, where) {
  const node = link(["conversations", "where", filter || ANY], title);
  if (filter === where) node.setAttribute("aria-current", "true");
  return node;
}

async function all(where, after, frame) {
  const listed = el("div", {});
  const again = async () => {
    const told = await find("conversations", { where, after });
    replace(listed, table("Conversations, the last opened first", [
      ["conversation", (row) => link(["conversations", row.id],
        row.addressee && el("span", { class: "preview" }, el("b", {}, row.addressee), " ", row.preview), el("span", { class: "id" }, row.id.slice(0, 13))), "title"],
      ["of", (row) => row.principal],
      ["state", (row) => [spaced(pill(STATES[row.state] ?? "", row.state), row.marks.map((mark) => pill("bad", mark)),
        row.waiting > 0 && pill("warn", `${count(row.waiting)} waiting`)), row.due !== null && el("p", { class: "quiet" }, "until ", day(row.due))]],
      ["opened", (row) => day(row.opened)],
      ["duration", (row) => `${(row.touched - row.opened).toFixed(1)} s`, "number"],
      ["steps", (row) => count(row.steps), "number"],
      ["tokens", (row) => count(row.tokens), "number"],
      ["cost", (row) => money(row.money), "number"],
    ], told.conversations, where ? "No conversation matches." : "There is no conversation yet."),
    el("nav", { class: "tabs", "aria-label": "Further conversations" }, spaced(
      frame.me.decides && link(["conversations", "try", where || ANY], "Try a policy on these"),
      after && link(["conversations", "where", where || ANY], "First page"),
      told.after && link(["conversations", "where", where || ANY, told.after], "Next page"))));
  };
  const wrong = el("p", { class: "s-bad", role: "alert" });
  await again().catch((error) => {
    if (error.status !== 400) throw error;
    put(wrong, error.message);
  });
  const timer = paced(again);
  return {
    node: el("div", { class: "page" }, el("h1", {}, "Conversations"), search(where), wrong,
      el("nav", { class: "tabs", "aria-label": "Saved views" }, spaced([...VIEWS, ...days()].map(([title, filter]) => view(title, filter, where)))),
      listed),
    news: () => after || timer.soon(),
    stop: timer.stop,
  };
}

function search(where) {
  const field = el("input", { id: "where", type: "search", autocomplete: "off", spellcheck: "false" });
  field.value = where;
  const form = el("form", { role: "search" },
    el("label", { for: "where" }, "Search, as words or as conditions like listener=bank refused=yes opened=2026-11-28 cost>0.5"),
    spaced(field, el("button", { type: "submit" }, "Find")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = field.value.trim();
    const words = typed && !/^[a-z]+(!=|<=|>=|=|<|>)/.test(typed);
    const filter = words ? `text="${typed.replaceAll('"', " ")}"` : typed;
    location.hash = `#/conversations/where/${encodeURIComponent(filter)}`;
  });
  return form;
}
