// The page of one conversation: the tree of its hops with what each says, costs, and why it went no further, and the
// prompts and answers of its models.

import { paced, read } from "./api.js";
import { button, count, el, link, look, money, plain, put, replace, sign, spaced, way } from "./dom.js";
import { concerns } from "./news.js";
import { lineage } from "./lineage.js";

export async function show(key) {
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
  if (row.event === "completed") return completion(key, row, opened);
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

// A prompt and its answer are read when somebody unfolds them: an agent repeats its history at each turn.
function completion(key, row, opened) {
  const kind = row.fault ? "bad" : "quiet";
  const head = spaced(
    el("span", { class: "elapsed" }, `+${row.elapsed.toFixed(3)} s`),
    sign(kind), el("span", { class: `event s-${kind}` }, "model asked"), el("b", {}, row.sender),
    row.readable && el("span", { class: "asked" }, row.summary));
  const node = el("li", { class: `hop completion ${kind}` });
  node.style.setProperty("--depth", String(Math.min(row.depth, 12)));
  if (!row.readable) return put(node, el("p", { class: "head" }, head));
  const body = el("div", {});
  const part = (each) => el("section", {}, el("h3", {}, each.heading), plain(each.lines));
  const fill = async () => {
    if (body.childElementCount) return;
    const told = await read("conversations", key, "completions", row.key);
    const tools = told.parts.filter((each) => each.heading.startsWith("tool "));
    replace(body, told.parts.filter((each) => !tools.includes(each)).map(part),
      tools.length > 0 && el("details", {}, el("summary", {}, `${count(tools.length)} tools as the model saw them`), tools.map(part)));
  };
  const folded = el("details", { open: opened.get(row.key) === true }, el("summary", { class: "head" }, head), body);
  const unfolded = () => fill().catch((error) => replace(body, el("p", { class: "s-bad", role: "alert" }, error.message)));
  folded.addEventListener("toggle", () => {
    opened.set(row.key, folded.open);
    if (folded.open) unfolded();
  });
  return put(node, folded);
}
