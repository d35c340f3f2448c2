// What an operator can do with a conversation: cancel an open request, download it, and the verbs for the rest.

import { read, send, place } from "./api.js";
import { button, el, replace } from "./dom.js";

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

  const save = el("a", {}, "Download as JSON lines");
  save.setAttribute("href", place(`conversations/${encodeURIComponent(key)}/download`));
  save.setAttribute("download", `${key}.jsonl`);
  const node = el("section", { class: "actions", "aria-label": "Actions" }, open, fault, el("p", {}, save),
    el("details", {}, el("summary", {}, "In the command line"), el("dl", { class: "facts" },
      el("dt", {}, "save it as a regression test"), el("dd", {}, el("code", {}, `agentserver replay ${key} --save tests/saved.json`)),
      el("dt", {}, "try a policy on what is recorded"), el("dd", {}, el("code", {}, "agentserver provenance backtest POLICY")),
      el("dt", {}, "go another way from a step"), el("dd", {}, el("code", {}, `agentserver fork ${key}`)))));
  return { node, again };
}
