// What a policy would have done: it is tried on one conversation or on the last ones, and no handler runs.

import { attempt, read } from "./api.js";
import { button, count, el, link, replace, spaced, table, way } from "./dom.js";

export async function show(key, where = "") {
  const known = await read("trials");
  const policy = el("textarea", { id: "policy", rows: 16, spellcheck: "false", autocomplete: "off", required: true });
  policy.value = known.policy;
  const file = el("input", { id: "file", type: "file", accept: ".yaml,.yml" });
  const mode = el("select", { id: "mode" }, [["", "as the policy says"], ["confirm", "confirm"], ["enforce", "enforce"]]
    .map(([value, words]) => el("option", { value }, words)));
  const last = el("input", { id: "last", type: "number", min: 1, max: known.limit, value: 100, required: true });
  const filter = el("input", { id: "which", type: "text", autocomplete: "off", spellcheck: "false", value: where });
  const fault = el("p", { role: "alert", class: "fault" });
  const result = el("div", { "aria-live": "polite" });
  const go = el("button", { type: "submit", class: "good" }, "Try it");
  const stop = button("Cancel", () => run?.abort());
  stop.hidden = true;
  let run = null;

  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (chosen?.size > known.bytes) return replace(fault, `A policy has at most ${count(known.bytes)} bytes.`);
    if (chosen) policy.value = await chosen.text();
  });

  async function submit() {
    replace(fault);
    replace(result, el("p", { class: "quiet" }, "Judging. It goes on in small steps, and ends when you leave this page."));
    run = new AbortController();
    [go.disabled, stop.hidden] = [true, false];
    try {
      const about = key ? { conversation: key } : { where: filter.value.trim(), last: Number(last.value) };
      replace(result, told(await attempt({ policy: policy.value, mode: mode.value, ...about }, run.signal)));
    } catch (error) {
      replace(result);
      replace(fault, run.signal.aborted ? "Cancelled." : error.message.split("\n").map((line) => el("span", {}, line)));
    }
    [go.disabled, stop.hidden, run] = [false, true, null];
  }

  const form = el("form", { class: "trial" },
    el("label", { for: "policy" }, "Policy, which begins as the one in force"), policy,
    el("label", { for: "file" }, "Or from a file"), file,
    el("label", { for: "mode" }, "Mode"), mode,
    key ? null : [el("label", { for: "last" }, `The last conversations, at most ${count(known.limit)}`), last,
      el("label", { for: "which" }, "Of those that match (empty for all)"), filter],
    el("div", { class: "buttons" }, spaced(go, stop)), fault);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  return {
    node: el("div", { class: "page" },
      el("p", {}, key ? link(["conversations", key], "The conversation") : link(["conversations"], "All conversations")),
      el("h1", {}, "Try a policy", key && [" on ", el("span", { class: "id" }, key)]),
      el("p", { class: "quiet" }, "No handler and no model runs, and nothing is changed: recorded messages are judged as they were sent."),
      form, result),
    stop: () => run?.abort(),
  };
}

function told(found) {
  const stopped = found.stops.length;
  return [
    el("h2", {}, "What it would have done"),
    el("p", {}, `Mode ${found.mode}: ${count(found.judged)} of ${count(found.asked)} conversations judged.`),
    found.limit && el("p", { class: "s-warn" }, `Not all were judged: ${found.limit}.`),
    el("ul", {}, found.summary.map((line) => el("li", {}, line))),
    table("Stopped or changed calls", [
      ["call", (row) => way(row.sender, row.to)],
      ["this policy", (row) => el("b", { class: row.fate === "allowed" ? "" : "s-bad" }, row.fate)],
      ...(found.compared ? [["policy in force", (row) => row.current || "allowed"]] : []),
      ["why", (row) => el("span", { class: "why" }, row.causes.join(", ") || "-"), "long"],
      ["conversation", (row) => [link(["conversations", row.conversation], row.conversation.slice(0, 13)), `, step ${row.step}`]],
    ], found.stops, "It stops no call, and changes none."),
    stopped >= 50 && el("p", { class: "quiet" }, `The first ${count(stopped)} are listed.`),
    found.tables.map((each) => [
      table(each.title, each.heads.map((head, at) => [head, (row) => row[at], at ? "number" : ""]), each.rows, "None."),
      each.more > 0 && el("p", { class: "quiet" }, `${count(each.more)} more`)]),
  ];
}
