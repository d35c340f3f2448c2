// What an operator can do with a conversation: cancel an open request, try a policy on it, save it as a test, download it.

import { read, send, place } from "./api.js";
import { button, el, link, replace, spaced } from "./dom.js";

function saved(title, key, what, name) {
  const node = el("a", {}, title);
  node.setAttribute("href", place(`conversations/${encodeURIComponent(key)}/${what}`));
  node.setAttribute("download", name);
  return node;
}

export function actions(key, { me, say }) {
  const open = el("div", { class: "buttons" });
  const fault = el("p", { role: "alert", class: "fault" });
  let known = "";

  async function cancel(request) {
    try {
      await send({ do: "cancel" }, "conversations", key, "requests", request);
      say("Cancelled. The record names you.");
    } catch (error) {
      replace(fault, error.message);
    }
    await again();
  }

  function offer(request) {
    const node = button(`Cancel request ${request.slice(0, 8)}`, () => {
      if (node.classList.contains("sure")) return cancel(request);
      node.classList.add("sure");
      replace(node, `Cancel request ${request.slice(0, 8)} for good`);
      say("Press again to cancel it, and everything that runs for it.");
    }, "bad");
    return node;
  }

  async function again() {
    if (!me.decides) return;
    const told = await read("conversations", key, "requests");
    if (told.open.join() === known) return;
    known = told.open.join();
    replace(open, told.open.map(offer));
  }

  const node = el("section", { class: "actions", "aria-label": "Actions" }, open, fault,
    el("p", {}, spaced(
      me.decides && link(["conversations", key, "try"], "Try a policy on it"),
      me.decides && saved("Save as a regression test", key, "test", `test-${key.slice(0, 8)}.zip`),
      saved("Download as JSON lines", key, "download", `${key}.jsonl`))),
    el("details", {}, el("summary", {}, "In the command line"), el("dl", { class: "facts" },
      el("dt", {}, "save it as a regression test"), el("dd", {}, el("code", {}, `agentserver replay ${key} --save tests/saved.json`)),
      el("dt", {}, "try a policy on it"), el("dd", {}, el("code", {}, `agentserver provenance backtest POLICY --conversation ${key}`)),
      el("dt", {}, "go another way from a step"), el("dd", {}, el("code", {}, `agentserver fork ${key}`)))));
  return { node, again };
}
