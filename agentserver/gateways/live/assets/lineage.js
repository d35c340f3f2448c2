// The way of a value from its source to the sink that it was to drive.

import { el, sign, spaced } from "./dom.js";

export function lineage(way) {
  const stop = (kind, role, listener, field, step, more) => el("li", { class: `stop ${kind}` }, spaced(
    el("span", { class: "role" }, role),
    el("b", {}, listener, field && el("span", { class: "field" }, field.startsWith("[") ? field : `.${field}`)),
    el("span", { class: "quiet" }, `step ${step}`),
    more));
  return el("figure", { class: "lineage" },
    el("figcaption", {}, "Way of the value ", el("q", {}, way.excerpt), `: ${way.rule}`),
    el("ol", {},
      stop("source", "source, untrusted", way.source.listener, way.source.field, way.source.step,
        el("span", { class: "quoted" }, "said ", el("q", {}, way.quoted), way.via && ` (undone: ${way.via})`)),
      way.hops.map((hop) => stop("", "passed on by", hop.listener, "", hop.step)),
      stop(way.blocked ? "sink blocked" : "sink", "sink", way.sink.listener, way.sink.field, way.sink.step,
        el("span", { class: way.blocked ? "s-bad" : "s-warn" }, sign(way.blocked ? "bad" : "warn"), " ", way.blocked ? "blocked before it" : DECISIONS[way.decision] ?? way.decision))));
}

const DECISIONS = {
  ask: "waits for a person", allow: "noted, went on", approved: "approved", permitted: "approved for the conversation",
};
