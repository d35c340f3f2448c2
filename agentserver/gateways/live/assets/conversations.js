// Conversations: a list, and one of them as the tree of its hops with what each says, costs, and why it went no further.

import { find, paced, read } from "./api.js";
import { button, count, day, el, link, look, money, plain, put, replace, sign, spaced, table, way } from "./dom.js";
import { concerns } from "./news.js";
import { lineage } from "./lineage.js";

export async function show([key, typed = "", after = ""]) {
  const where = typed === ANY ? "" : typed;
  return key && key !== "where" ? one(key) : all(where, after);
}

const ANY = "*"; // stands for no filter in an address, which has no empty part

// Filters that the page offers as links: the filter is in the address, so any of them can be saved and shared.
const VIEWS = [["All", ""], ["Open", "state=open"], ["Refused", "refused=yes"], ["Failed", "failed=yes"], ["Costly", "cost>=1"], ["Slow", "duration>=1m"]];

async function all(where, after) {
  const listed = el("div", {});
  const again = async () => {
    const told = await find("conversations", { where, after });
    replace(listed, table("Conversations, the last opened first", [
      ["conversation", (row) => [link(["conversations", row.id], row.id.slice(0, 13)), row.preview && el("p", { class: "quiet" }, row.preview)]],
      ["of", (row) => row.principal],
      ["state", (row) => [row.state, row.due !== null && [" sleeps until ", day(row.due)],
        row.marks.length > 0 && el("span", { class: "s-bad" }, ` ${row.marks.join(", ")}`)]],
      ["opened", (row) => day(row.opened)],
      ["duration", (row) => `${(row.touched - row.opened).toFixed(1)} s`, "number"],
      ["steps", (row) => count(row.steps), "number minor"],
      ["waiting", (row) => count(row.waiting), "number minor"],
      ["tokens", (row) => count(row.tokens), "number minor"],
      ["cost", (row) => money(row.money), "number minor"],
    ], told.conversations, where ? "No conversation matches." : "There is no conversation yet."),
    el("nav", { "aria-label": "Pages" }, spaced(
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
      el("nav", { "aria-label": "Saved views" }, spaced(VIEWS.map(([title, filter]) => link(["conversations", "where", filter || ANY], title)))),
      listed),
    news: () => after || timer.soon(),
    stop: timer.stop,
  };
}

function search(where) {
  const field = el("input", { id: "where", type: "search", autocomplete: "off", spellcheck: "false" });
  field.value = where;
  const form = el("form", { role: "search" },
    el("label", { for: "where" }, "Search, as words or as conditions like listener=bank refused=yes text=invoice cost>0.5"),
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

async function one(key) {
  const head = el("div", {});
  const tree = el("ol", { class: "tree" });
  const opened = new Map();
  let shown = [];
  const again = async () => {
    const told = await read("conversations", key);
    replace(head, el("p", { class: "quiet" }, "of ", el("b", {}, told.principal), `, ${count(told.rows.length + told.earlier)} events`,
      told.cost.tokens > 0 && `, ${count(told.cost.tokens)} tokens`, told.cost.money > 0 && `, ${money(told.cost.money)}`),
    told.earlier > 0 && el("p", { class: "quiet" }, `The first ${count(told.earlier)} events are left out.`));
    const keys = told.rows.map((row) => JSON.stringify(row));
    const same = shown.findIndex((each, at) => each !== keys[at]);
    const kept = same < 0 ? shown.length : same;
    while (tree.children.length > kept) tree.lastElementChild.remove();
    put(tree, told.rows.slice(kept).map((row) => hop(key, row, opened)));
    shown = keys;
  };
  await again();
  const timer = paced(again);
  return {
    node: el("div", { class: "page" },
      el("p", {}, link(["conversations"], "All conversations")),
      el("h1", {}, "Conversation ", el("span", { class: "id" }, key)), head, tree),
    news: (told) => concerns(told, (each) => each.conversation === key) && timer.soon(),
    stop: timer.stop,
  };
}

function hop(key, row, opened) {
  const kind = look(row.event);
  const why = [row.code, row.why].filter(Boolean).join(": ");
  const head = spaced(
    el("span", { class: "elapsed" }, `+${row.elapsed.toFixed(3)} s`),
    sign(kind), el("span", { class: `event s-${kind}` }, row.event),
    way(row.sender, row.to), row.root && el("span", { class: "root" }, row.root),
    row.took !== null && el("span", { class: "quiet" }, `${(row.took * 1000).toFixed(0)} ms`),
    row.cost && el("span", { class: "cost" }, `${count(row.cost[0])} tokens ${money(row.cost[1])}`));
  const node = el("li", { class: `hop ${kind}` },
    row.said.length > 0 ? said(key, row, head, opened) : el("p", { class: "head" }, head),
    why && el("p", { class: `why s-${kind}` }, why),
    row.ways.map(lineage),
    row.more.length > 0 && el("details", { open: !row.ways.length }, el("summary", {}, "all that was found"), plain(row.more)));
  node.style.setProperty("--depth", String(Math.min(row.depth, 12)));
  return node;
}

function said(key, row, head, opened) {
  const body = el("div", {}, plain(row.said));
  if (row.cut) {
    put(body, button("show all of it", async (event) => {
      const whole = await read("conversations", key, "messages", row.delivery);
      replace(body, plain(whole.said));
      event.preventDefault();
    }, "plain"));
  }
  const node = el("details", { open: opened.get(row.delivery + row.event) === true }, el("summary", { class: "head" }, head), body);
  node.addEventListener("toggle", () => opened.set(row.delivery + row.event, node.open));
  return node;
}
