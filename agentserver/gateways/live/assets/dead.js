// Dead letters: deliveries that were given up, to be tried again or discarded.

import { paced, read, send } from "./api.js";
import { message } from "./conversation.js";
import { button, day, el, link, plain, replace, table, way } from "./dom.js";
import { concerns } from "./news.js";

export async function show([key], frame) {
  return key ? one(key, frame) : all();
}

async function all() {
  const listed = el("div", {});
  const again = async () => {
    const told = await read("dead");
    replace(listed, table("Dead letters, the latest first", [
      ["message", (row) => link(["dead", row.delivery], way(row.sender, row.to), " ", row.root)],
      ["given up", (row) => day(row.at)],
      ["of", (row) => row.principal, "short"],
      ["reason", (row) => el("span", { class: "why" }, row.reason.slice(0, 300)), "long"],
    ], told.letters, "Nothing was given up."), told.more && el("p", { class: "quiet" }, "Earlier ones are not listed."),
    told.discarded.length > 0 && table("Discarded", [
      ["message", (row) => link(["conversations", row.conversation], way(row.sender, row.to), " ", row.root)],
      ["discarded", (row) => day(row.at)],
      ["by", (row) => row.by, "short"],
      ["of", (row) => row.principal, "short"],
      ["reason", (row) => el("span", { class: "why" }, row.reason.slice(0, 300)), "long"],
    ], told.discarded, ""));
  };
  await again();
  const timer = paced(again);
  return {
    node: el("div", { class: "page" }, el("h1", {}, "Dead letters"), listed),
    news: (told) => concerns(told, (hop) => hop.event === "failed" || hop.event === "redriven") && timer.soon(),
    stop: timer.stop,
  };
}

async function one(key, { me, say }) {
  const letter = await read("dead", key);
  const fault = el("p", { role: "alert", class: "fault" });

  async function act(what, words) {
    try {
      const told = await send({ do: what }, "dead", key);
      say(`${words} ${told.conversation ? `in conversation ${told.conversation}` : ""}`);
      location.hash = "#/dead";
    } catch (error) {
      replace(fault, error.message);
    }
  }

  const discard = button("Discard", () => {
    if (discard.classList.contains("sure")) return act("discard", "Discarded.");
    discard.classList.add("sure");
    replace(discard, "Discard for good");
    say("Press again to discard it for good.");
  }, "bad");
  const decide = me.decides
    ? el("section", { class: "decide", "aria-label": "Decision" },
      el("p", { class: "quiet" }, "Requeued, it is retried in place while a caller waits for it there; otherwise it becomes a new request of ", el("b", {}, letter.principal), ", and its text does not count as an order of theirs."),
      el("div", { class: "buttons" }, button("Requeue", () => act("requeue", "Requeued"), "good"), discard), fault)
    : el("p", { class: "quiet" }, "Operators decide. A viewer sees no contents.");
  return {
    node: el("div", { class: "page" },
      el("p", {}, link(["dead"], "All dead letters")),
      el("h1", {}, "Dead letter ", way(letter.sender, letter.to)),
      el("dl", { class: "facts" },
        el("dt", {}, "payload"), el("dd", {}, letter.root),
        el("dt", {}, "given up"), el("dd", {}, day(letter.at)),
        el("dt", {}, "conversation"), el("dd", {}, link(["conversations", letter.conversation], letter.conversation), letter.open ? ", open" : ", over")),
      el("h2", {}, "Why"), plain(letter.reason.split("\n"), "Why"),
      el("h2", {}, "What it says"), el("div", { role: "group", "aria-label": "What it says" }, message(letter)), decide),
  };
}
