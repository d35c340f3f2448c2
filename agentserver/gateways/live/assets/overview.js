// The overview: figures of the stored conversations over time, by principal and listener, and what waits.

import { find, paced } from "./api.js";
import { chart } from "./chart.js";
import { count, day, el, link, money, pill, put, replace, spaced, span, table, when } from "./dom.js";
import { section as schedules } from "./schedules.js";

const PAUSE = 30_000; // milliseconds between two readings: the sums are read from the whole period
const PERIODS = ["hour", "day", "week", "month", "year"];

const seconds = (number) => (number < 100 ? `${number.toFixed(1)} s` : span(number));

// A filter of the conversations of the period, as the figures count them.
const within = (told, filter) => ["conversations", "where", `${filter} opened>=${new Date(told.since * 1000).toISOString()}`.trim()];

const figures = (told, field) => [
  [field, (row) => link(within(told, `${field}="${row.name}"`), row.name)],
  ["conversations", (row) => count(row.conversations), "number"],
  ["refused", (row) => (row.refused ? el("b", { class: "s-bad" }, count(row.refused)) : "0"), "number"],
  ["failed", (row) => (row.failed ? el("b", { class: "s-bad" }, count(row.failed)) : "0"), "number"],
  ["tokens", (row) => count(row.tokens), "number"],
  ["cost", (row) => money(row.money) || "-", "number"],
];

const brief = (number) => (number === null ? "-" : number < 1 ? `${(1000 * number).toFixed(0)} ms` : seconds(number));

// A principal's times are those of its conversations; a listener's are those of its own calls.
const LASTED = [["mean", (row) => seconds(row.mean), "number"], ["longest", (row) => seconds(row.longest), "number"]];
const CALLED = [["mean call", (row) => brief(row.call_mean), "number"], ["longest call", (row) => brief(row.call_longest), "number"]];

const card = (title, text, parts, look) => el("li", { class: "figure" }, el("span", { class: "quiet" }, title), el("b", { class: look }, parts ? link(parts, text) : text));

// A late one has missed heartbeats; what it did last is shown, and an ended one does nothing.
const STATES = { alive: "good", late: "warn", ended: "quiet" };
const state = (row) => pill(STATES[row.state], row.state);
const held = (row, number) => (row.state === "ended" ? "-" : count(number));

function body(told) {
  const { total } = told;
  const workers = told.servers.flatMap((server) => server.workers.map((one) => ({ ...one, server: server.name })));
  const rate = total.refused ? ` (${((100 * total.refused) / total.conversations).toFixed(1)} %)` : "";
  return [
    el("ul", { class: "figures" },
      card("conversations", count(total.conversations), within(told, "")),
      card("with a refusal", `${count(total.refused)}${rate}`, within(told, "refused=yes"), total.refused > 0 && "s-bad"),
      card("with a failure", count(total.failed), within(told, "failed=yes"), total.failed > 0 && "s-bad"),
      card("cost", money(total.money) || "$0"),
      card("mean duration", seconds(total.mean)),
      card("wait for approval", count(told.waiting.length), ["approvals"], told.waiting.length > 0 && "s-warn"),
      card("dead letters", told.more ? `${count(told.dead)} or more` : count(told.dead), ["dead"], told.dead > 0 && "s-bad")),
    !total.conversations && el("p", { class: "empty" }, "No conversation was opened in this period."),
    el("div", { class: "charts" },
      chart("Conversations", told.times, (one) => one.conversations, count, [["refused", (one) => one.refused]]),
      chart("Cost", told.times, (one) => one.money, (number) => money(number) || "$0"),
      chart("Mean duration", told.times, (one) => one.mean, seconds)),
    el("div", { class: "halves" },
      table("By principal", [...figures(told, "principal"), ...LASTED], told.principals, "No principal opened a conversation."),
      table("By listener", [...figures(told, "listener"), ...CALLED], told.listeners, "No listener got a message.")),
    el("div", { class: "halves" }, told.waiting.length > 0 && table("Waiting for approval", [
      ["message", (row) => link(["approvals", row.id], `${row.sender} → ${row.to}`)],
      ["payload", (row) => row.root],
      ["waits for", (row) => span(row.age), "number"],
    ], told.waiting, ""),
    told.queues.length > 0 && table("Work of this server now", [
      ["listener", (row) => row.name],
      ["running", (row) => count(row.running), "number"],
      ["queued", (row) => count(row.queued), "number"],
    ], told.queues, "")),
    told.servers.length > 0 && table("Servers", [
      ["server", (row) => row.name],
      ["state", state],
      ["since", (row) => day(row.since)],
      ["last heartbeat", (row) => when(row.seen)],
      ["conversations at work", (row) => held(row, row.conversations), "number"],
      ["running", (row) => held(row, row.running), "number"],
      ["queued", (row) => held(row, row.queued), "number"],
    ], told.servers, ""),
    workers.length > 0 && table("Workers", [
      ["worker", (row) => row.name],
      ["listener", (row) => row.listener],
      ["server", (row) => row.server],
      ["state", state],
      ["since", (row) => day(row.since)],
      ["last heartbeat", (row) => when(row.seen)],
      ["calls now", (row) => held(row, row.calls), "number"],
    ], workers, ""),
  ];
}

export async function show([asked = ""]) {
  const shown = el("div", {});
  const choice = el("nav", { class: "tabs", "aria-label": "Period" });
  const again = async () => {
    const told = await find("overview", { period: asked });
    replace(choice, spaced(PERIODS.map((name) => {
      const node = link(["overview", name], name);
      if (name === told.period) node.setAttribute("aria-current", "true");
      return node;
    })), el("span", { class: "quiet" }, " ", day(told.since), " to ", day(told.until)));
    replace(shown, body(told));
  };
  await again();
  const sent = await schedules();
  const timer = paced(again, PAUSE);
  return {
    node: put(el("div", { class: "page" }), el("h1", {}, "Overview"), choice, shown, sent),
    news: timer.soon,
    stop: timer.stop,
  };
}
