// Approvals: what waits for a person, one of them whole, and who decided what.

import { paced, read, send } from "./api.js";
import { button, day, el, lines, link, replace, sign, spaced, span, table, way } from "./dom.js";
import { concerns } from "./news.js";
import { lineage } from "./lineage.js";

const EVENTS = new Set(["asked", "approved", "withdrawn", "dropped", "closed"]);

export async function show([key], frame) {
  return key ? one(key, frame) : all();
}

async function all() {
  const inbox = el("div", {});
  const history = el("div", {});
  const timers = new Set();
  const again = async () => {
    const told = await read("approvals");
    timers.clear();
    replace(inbox, told.waiting.length ? el("ul", { class: "inbox" }, told.waiting.map((each) => card(each, timers)))
      : el("p", { class: "empty" }, "Nothing waits for a person."));
    replace(history, table("Decisions, the latest first", [
      ["when", (row) => day(row.at)],
      ["message", (row) => el("span", {}, way(row.sender, row.to), " ", row.root)],
      ["decision", (row) => el("span", { class: row.granted ? "s-good" : "s-bad" }, sign(row.granted ? "good" : "bad"), " ", row.answer)],
      ["conversation", (row) => link(["conversations", row.conversation], row.conversation.slice(0, 13))],
    ], told.decided, "Nobody has decided anything yet."));
  };
  await again();
  const timer = paced(again);
  const clock = setInterval(() => timers.forEach((tick) => tick()), 1000);
  return {
    node: el("div", { class: "page" }, el("h1", {}, "Approvals"), inbox, history),
    news: (told) => concerns(told, (hop) => EVENTS.has(hop.event)) && timer.soon(),
    stop: () => {
      clearInterval(clock);
      timer.stop();
    },
  };
}

function left(each, timers) {
  const until = performance.now() + each.left * 1000;
  const node = el("span", { class: "left" });
  const tick = () => replace(node, `${span((until - performance.now()) / 1000)} left`);
  tick();
  timers.add(tick);
  return node;
}

function card(each, timers) {
  return el("li", { class: "card" },
    el("p", { class: "head" }, spaced(sign("warn"), way(each.sender, each.to), el("span", { class: "root" }, each.root), left(each, timers))),
    el("p", { class: "quiet" }, "asked for in a conversation of ", el("b", {}, each.principal)),
    each.why && el("p", { class: "why" }, each.why),
    el("p", {}, link(["approvals", each.id], `Read and decide: ${each.sender} to ${each.to}`)));
}

const GONE = "It no longer waits for a decision.";

async function one(key, { say, me }) {
  const each = await read("approvals", key);
  const timers = new Set();
  const fault = el("p", { role: "alert", class: "fault" });
  const unread = el("p", { class: "quiet" }, "Read it to its end; then it can be approved.");
  const end = el("div", { class: "end" });

  async function answer(said, words) {
    try {
      await send({ answer: said, digest: each.digest }, "approvals", key);
      say(`${words}: ${each.sender} to ${each.to}, ${each.root}`);
      location.hash = "#/approvals";
    } catch (error) {
      replace(fault, error.status === 404 ? GONE : error.message);
    }
  }

  const once = button("Approve this once", () => answer("once", "Approved once"), "good");
  const always = button("Approve always", () => answer("always", "Approved for the conversation"), "plain");
  const deny = button("Deny", () => answer("deny", "Denied"), "bad");
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    once.disabled = always.disabled = Boolean(each.barred);
    unread.remove();
  });
  once.disabled = always.disabled = true;

  const decide = me.decides
    ? el("section", { class: "decide", "aria-label": "Decision" },
      each.barred ? el("p", { class: "s-warn" }, `You may deny it, not approve it: ${each.barred}.`) : unread,
      el("div", { class: "buttons" }, once, deny),
      el("div", { class: "always" }, el("p", {}, "For the rest of this conversation, without being asked again:"),
        el("ul", {}, each.always.map((text) => el("li", {}, text))), always),
      fault)
    : el("p", { class: "quiet" }, "Operators decide. A viewer sees no contents.");

  const node = el("div", { class: "page" },
    el("p", {}, link(["approvals"], "All approvals")),
    el("h1", {}, "Approve ", way(each.sender, each.to), "?"),
    el("dl", { class: "facts" },
      el("dt", {}, "payload"), el("dd", {}, each.root),
      el("dt", {}, "asked for by"), el("dd", {}, each.principal),
      el("dt", {}, "conversation"), el("dd", {}, link(["conversations", each.conversation], each.conversation)),
      el("dt", {}, "time"), el("dd", {}, left(each, timers))),
    el("h2", {}, "What is at stake"), lines(each.reasons, "What is at stake"),
    each.ways.length > 0 && [el("h2", {}, "The way of the values"), el("div", { class: "ways" }, each.ways.map(lineage))],
    el("h2", {}, "What it says"), lines(each.said, "What it says"),
    each.origins.length > 0 && [el("h2", {}, "Where it comes from"), lines(each.origins, "Where it comes from")],
    end, decide);
  const clock = setInterval(() => timers.forEach((tick) => tick()), 1000);
  return {
    node,
    shown: () => seen.observe(end),
    news: (told) => concerns(told, (hop) => EVENTS.has(hop.event)) && read("approvals", key).catch((error) => {
      if (error.status === 404) replace(fault, GONE);
    }),
    stop: () => {
      clearInterval(clock);
      seen.disconnect();
    },
  };
}
