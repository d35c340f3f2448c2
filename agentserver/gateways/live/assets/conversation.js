// The page of one conversation: each request as a tree and a waterfall, what each message says and where its values come
// from, and the prompts and answers of its models.

import { actions } from "./actions.js";
import { paced, read } from "./api.js";
import { choice } from "./compare.js";
import { count, day, el, link, look, money, plain, put, replace, sign, spaced, way } from "./dom.js";
import { concerns } from "./news.js";
import { lineage } from "./lineage.js";

export async function show(key, frame) {
  const head = el("div", {});
  const requests = el("div", { class: "requests" });
  const page = { key, opened: new Map(), read: new Map(), plumbing: false };
  let shown = [];
  const fold = el("button", { type: "button", class: "plain", "aria-pressed": "false" });
  fold.addEventListener("click", () => {
    page.plumbing = !page.plumbing;
    fold.setAttribute("aria-pressed", String(page.plumbing));
    requests.classList.toggle("plumbed", page.plumbing);
  });
  const again = async () => {
    const told = await read("conversations", key);
    const folded = told.rows.filter((row) => row.plumbing).length;
    replace(head, el("p", { class: "quiet" }, "of ", el("b", {}, told.principal), `, ${count(told.rows.length + told.earlier)} events`,
      told.cost.tokens > 0 && `, ${count(told.cost.tokens)} tokens`, told.cost.money > 0 && `, ${money(told.cost.money)}`),
    told.earlier > 0 && el("p", { class: "quiet" }, `The first ${count(told.earlier)} events are left out.`));
    replace(fold, `Plumbing (${count(folded)})`);
    fold.hidden = folded === 0;
    const groups = grouped(told.rows);
    const keys = groups.map((each) => JSON.stringify(each));
    const same = shown.findIndex((each, at) => each !== keys[at]);
    const kept = same < 0 ? shown.length : same;
    while (requests.children.length > kept) requests.lastElementChild.remove();
    put(requests, groups.slice(kept).map((each) => request(page, each)));
    shown = keys;
  };
  await again();
  const acts = actions(key, frame);
  acts.node.prepend(fold);
  await acts.again();
  const timer = paced(async () => {
    await again();
    await acts.again();
  });
  return {
    node: el("div", { class: "page" },
      el("p", {}, link(["conversations"], "All conversations")),
      el("h1", {}, "Conversation ", el("span", { class: "id" }, key)), head, acts.node, requests, choice(key)),
    news: (told) => concerns(told, (each) => each.conversation === key) && timer.soon(),
    stop: timer.stop,
  };
}

// The rows of each request; those without one belong to the request before them.
function grouped(rows) {
  const groups = [];
  for (const row of rows) {
    if (!groups.length || (row.request && row.request !== groups.at(-1)[0].request)) groups.push([]);
    groups.at(-1).push(row);
  }
  return groups;
}

// One request: its rows as a tree, each with the time of its handler as a bar in the request's time.
function request(page, rows) {
  const [first] = rows;
  const whole = Math.max(...rows.filter(runs).map((row) => row.elapsed), 0.001);
  return el("section", { class: "request" },
    el("h2", {}, "Request ", first.request && [el("span", { class: "id" }, first.request.slice(0, 8)), " "],
      "at ", day(first.at - first.elapsed), el("span", { class: "quiet" }, `, ${seconds(whole)}`)),
    el("ol", { class: "tree" }, rows.map((row) => (row.event === "completed" ? completion : hop)(page, row, whole))));
}

const seconds = (number) => `${number.toFixed(3)} s`;

// A dead letter may be discarded days later, which is no part of the request's time.
const runs = (row) => row.event !== "dismissed";

function bar(row, whole, kind) {
  const node = el("span", { class: `span ${kind}` });
  const took = Math.min(row.took ?? 0, row.elapsed);
  node.style.setProperty("--from", String((row.elapsed - took) / whole));
  node.style.setProperty("--part", String(took / whole));
  return el("span", { class: "waterfall", "aria-hidden": "true" }, node);
}

function item(row, look, children) {
  const node = el("li", { class: `hop ${look}${row.plumbing ? " plumbing" : ""}`, id: row.number === undefined ? undefined : `record-${row.number}` }, children);
  node.style.setProperty("--depth", String(Math.min(row.depth, 12)));
  return node;
}

function hop(page, row, whole) {
  const kind = look(row.event);
  const why = [row.code, row.why].filter(Boolean).join(": ");
  const head = [el("span", { class: "what" }, spaced(
    el("span", { class: "elapsed" }, `+${seconds(row.elapsed)}`),
    sign(kind), el("span", { class: `event s-${kind}` }, row.event),
    way(row.sender, row.to), row.root && el("span", { class: "root" }, row.root),
    row.took !== null && el("span", { class: "quiet" }, `${(row.took * 1000).toFixed(0)} ms`),
    row.line > 0 && el("span", { class: "quiet" }, `line ${row.line}`),
    row.cost && el("span", { class: "cost" }, `${count(row.cost[0])} tokens ${money(row.cost[1])}`))), runs(row) && bar(row, whole, kind)];
  return item(row, kind, [
    row.message ? unfolded(page, `message ${row.number}`, head, async () => message(await read("conversations", page.key, "messages", String(row.number))))
      : el("p", { class: "head" }, head),
    why && el("p", { class: `why s-${kind}` }, why),
    row.ways.length > 0 && el("div", { class: "ways" }, row.ways.map(lineage)),
    row.more.length > 0 && el("details", { open: !row.ways.length }, el("summary", {}, "all that was found"), plain(row.more))]);
}

// What is read when somebody unfolds it, once; it stays open when the page is drawn again.
function unfolded(page, name, head, make) {
  const body = el("div", { class: "body" });
  const fill = async () => {
    if (!page.read.has(name)) page.read.set(name, await make());
    replace(body, page.read.get(name));
  };
  const node = el("details", { open: page.opened.get(name) === true }, el("summary", { class: "head" }, head), body);
  node.addEventListener("toggle", () => {
    page.opened.set(name, node.open);
    if (node.open) fill().catch((error) => replace(body, el("p", { class: "s-bad", role: "alert" }, error.message)));
  });
  return node;
}

// Fields of a message

export function message(told) {
  if (told.said.length) return plain(told.said);
  if (!told.fields.length) return el("p", { class: "quiet" }, "It has no fields.");
  return el("div", {},
    el("dl", { class: "fields" }, told.fields.map(field)),
    told.more > 0 && el("p", { class: "quiet" }, `${count(told.more)} more fields are left out.`));
}

function field(each) {
  const row = el("div", {}, el("dt", {}, each.name),
    el("dd", {}, each.value && el("span", { class: "value" }, each.value.join("\n")), each.origins.map(origin)));
  row.style.setProperty("--depth", String(Math.min(each.depth, 12)));
  return row;
}

// Where a value comes from. The text that holds it appears while the mark has the pointer or the focus, and stays after a press.
function origin(one) {
  const words = el("span", { class: "words" }, one.words);
  const from = one.from !== null && el("button", { type: "button", class: "plain" }, "show that message");
  if (from) {
    from.addEventListener("click", () => {
      const there = document.getElementById(`record-${one.from}`);
      if (!there) return;
      const folded = there.querySelector("details");
      if (folded) folded.open = true;
      there.setAttribute("tabindex", "-1");
      there.focus();
    });
  }
  const quote = el("span", { class: "source" }, words,
    one.quote && el("q", {}, one.quote.before, el("mark", {}, one.quote.match), one.quote.after), from);
  const mark = el("button", { type: "button", class: `origin ${one.kind}`, "aria-expanded": "false" }, one.mark);
  const node = el("span", { class: "from" }, mark, quote);
  let stays = false;
  const set = (open) => {
    quote.hidden = !open;
    mark.setAttribute("aria-expanded", String(open));
  };
  set(false);
  mark.addEventListener("click", () => set((stays = !stays)));
  node.addEventListener("mouseenter", () => set(true));
  node.addEventListener("mouseleave", () => set(stays || node.contains(document.activeElement)));
  node.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && set(true));
  node.addEventListener("focusout", (event) => node.contains(event.relatedTarget) || set(stays));
  node.addEventListener("keydown", (event) => event.key === "Escape" && set((stays = false)));
  return [" ", node];
}

// Prompts and answers, which are read when somebody unfolds them: an agent repeats its history at each turn.

function completion(page, row, whole) {
  const kind = row.fault ? "bad" : "quiet";
  const head = [el("span", { class: "what" }, spaced(
    el("span", { class: "elapsed" }, `+${seconds(row.elapsed)}`),
    sign(kind), el("span", { class: `event s-${kind}` }, "model asked"), el("b", {}, row.sender),
    row.readable && el("span", { class: "asked" }, row.summary))), row.readable && bar(row, whole, kind)];
  return item(row, `completion ${kind}`, row.readable
    ? unfolded(page, row.key, head, async () => prompt(await read("conversations", page.key, "completions", row.key)))
    : el("p", { class: "head" }, head));
}

function prompt(told) {
  const part = (each) => el("section", {}, el("h3", {}, each.heading), plain(each.lines));
  const tools = told.parts.filter((each) => each.heading.startsWith("tool "));
  return el("div", {}, told.parts.filter((each) => !tools.includes(each)).map(part),
    tools.length > 0 && el("details", {}, el("summary", {}, `${count(tools.length)} tools as the model saw them`), tools.map(part)));
}
