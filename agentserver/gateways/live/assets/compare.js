// Two conversations side by side: their steps in pairs, with the fields that differ marked.

import { read } from "./api.js";
import { button, count, el, link, look, put, replace, sign, spaced, way } from "./dom.js";

export function choice(key) {
  const field = el("input", { id: "compare", type: "text", autocomplete: "off", spellcheck: "false" });
  const go = () => {
    const other = field.value.trim();
    if (other) location.hash = `#/conversations/${[key, "compare", other].map(encodeURIComponent).join("/")}`;
  };
  field.addEventListener("keydown", (event) => event.key === "Enter" && go());
  return el("div", { class: "compare" }, el("label", { for: "compare" }, "Compare with the conversation"), spaced(field, button("Compare", go)));
}

export async function show(keys) {
  const { pairs } = await read("conversations", keys[0], "compare", keys[1]);
  const alone = pairs.filter(({ rows }) => !rows[0] || !rows[1]).length;
  return {
    node: el("div", { class: "page" },
      el("h1", {}, "Two conversations"),
      el("p", {}, "Left ", link(["conversations", keys[0]], keys[0].slice(0, 13)), ", right ", link(["conversations", keys[1]], keys[1].slice(0, 13)),
        el("span", { class: "quiet" }, `: ${count(pairs.length - alone)} steps in both, ${count(alone)} in one of them`)),
      el("ol", { class: "pairs" }, pairs.map((pair) => step(keys, pair)))),
  };
}

function step(keys, { rows: pair, differing }) {
  const row = pair[0] ?? pair[1];
  const kind = look(row.event);
  const where = pair[0] ? (pair[1] ? "" : "only left") : "only right";
  const head = spaced(sign(kind), el("span", { class: `event s-${kind}` }, row.event === "completed" ? "model asked" : row.event),
    way(row.sender, row.to || row.sender), row.root && el("span", { class: "root" }, row.root), where && el("b", { class: "s-warn" }, where));
  if (!row.message) return el("li", {}, el("p", { class: "head" }, head));
  const body = el("div", {});
  const node = el("details", {}, el("summary", { class: "head" }, head), body);
  node.addEventListener("toggle", async () => {
    if (!node.open || body.childElementCount) return;
    try {
      const said = await Promise.all(pair.map((each, at) => each && read("conversations", keys[at], "messages", String(each.number))));
      replace(body, fields(said, differing));
    } catch (error) {
      put(body, el("p", { class: "s-bad", role: "alert" }, error.message));
    }
  });
  return el("li", {}, node);
}

function valued(told) {
  const found = new Map();
  const around = [];
  for (const each of told?.fields ?? []) {
    around.length = each.depth;
    around.push(each.name);
    if (each.value) found.set(around.join("."), each.value.join("\n"));
  }
  if (told?.said.length) found.set("message", told.said.join("\n"));
  return found;
}

function fields(said, differing) {
  const [left, right] = said.map(valued);
  const names = [...new Set([...left.keys(), ...right.keys()])];
  if (!names.length) return el("p", { class: "quiet" }, "It has no fields.");
  const side = (of, name, differs) => el("div", { class: "value" }, of.has(name) ? (differs ? el("mark", {}, of.get(name)) : of.get(name)) : el("span", { class: "quiet" }, "not there"));
  return el("dl", { class: "fields sides" }, names.map((name) => {
    const differs = differing.includes(name);
    return el("div", {}, el("dt", {}, name, differs && el("span", { class: "s-warn" }, " differs")),
      el("dd", {}, side(left, name, differs), side(right, name, differs)));
  }));
}
