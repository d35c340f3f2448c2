// The organism: who may talk to whom, what is on its way, what was refused, and how busy each listener is.

import { read } from "./api.js";
import { count, el, link, look, put, replace, sign, spaced, svg, table, way, when } from "./dom.js";
import { section as schedules } from "./schedules.js";
import { Traffic } from "./traffic.js";

const RECENT = 30;
const MARGIN = 96; // left of the picture, for those who are outside

const LEGEND = [["message", "message"], ["answer", "answer"], ["bad", "refused or failed"], ["warn", "waits, or was noted"]];

export async function show(rest, { state }) {
  const told = await read("organism");
  const rows = new Map(told.listeners.map((one) => [one.name, { ...one, sent: 0, refused: 0 }]));
  const boxOf = new Map(told.boxes.flatMap((box) => box.members.map((name) => [name, box.name])));
  state.queues = told.queues;

  const picture = drawn(told);
  const traffic = new Traffic(picture, told, boxOf);
  const recent = el("ol", { class: "recent" });
  const chosen = el("div", { class: "chosen", "aria-live": "polite" }, hint());
  const followed = []; // each writes one cell again when its figure has changed

  // A cell whose text follows a figure of its row.
  const figure = (text, look = () => "") => (one) => {
    const node = el("span", {});
    let shown = null;
    followed.push(() => {
      const now = text(one);
      if (now === shown) return;
      shown = node.textContent = now;
      node.className = look(one);
    });
    return node;
  };
  const load = (one) => state.queues[one.name] ?? [0, 0];
  const listed = table("Listeners", [
    ["listener", (one) => el("span", {}, one.name, one.agent && el("span", { class: "tag" }, "agent"))],
    ["running", figure((one) => `${load(one)[1]} of ${one.room}`), "number"],
    ["queued", figure((one) => count(load(one)[0])), "number"],
    ["sent", figure((one) => count(one.sent)), "number"],
    ["refused", figure((one) => count(one.refused), (one) => (one.refused ? "event s-bad" : "")), "number"],
    ["may address", (one) => one.peers.join(", ") || "nobody", "long"],
  ], [...rows.values()], "No listener is declared.");

  function loads() {
    for (const box of told.boxes) {
      let [running, queued] = [0, 0];
      for (const name of box.members) {
        const [waits, runs] = state.queues[name] ?? [0, 0];
        running += runs;
        queued += waits;
      }
      picture.load(box.name, running, queued);
    }
    for (const write of followed) write();
  }

  function hint() {
    return el("p", { class: "quiet" }, "Choose a listener to read what it is for.");
  }

  picture.choose = (name) => {
    const box = told.boxes.find((each) => each.name === name);
    const members = box.members.map((each) => rows.get(each));
    replace(chosen, el("h2", {}, name), members.slice(0, 20).map((one) => el("dl", { class: "facts" },
      members.length > 1 && [el("dt", {}, "listener"), el("dd", {}, one.name)],
      el("dt", {}, "is for"), el("dd", {}, one.description || "it does not say"),
      el("dt", {}, "takes"), el("dd", {}, one.takes.join(", ") || "nothing"),
      el("dt", {}, "may address"), el("dd", {}, one.peers.join(", ") || "nobody but its callers"),
      one.approval && [el("dt", {}, "approval"), el("dd", {}, `a person approves ${one.approval}`)])),
    members.length > 20 && el("p", {}, `and ${members.length - 20} more`));
  };

  function news(told) {
    for (const hop of told.hops) {
      const from = rows.get(hop.sender);
      if (from && hop.event === "sent") from.sent++;
      if (from && hop.event === "refused") from.refused++;
      traffic.hop(hop);
    }
    for (const [sender, to, event, times] of told.counted) {
      const from = rows.get(sender);
      if (from && event === "sent") from.sent += times;
      if (from && event === "refused") from.refused += times;
      traffic.counted(sender, to, times);
    }
    loads();
    const last = told.hops.filter((hop) => hop.event !== "closed").slice(-RECENT).reverse();
    recent.prepend(...last.map(happened));
    while (recent.childElementCount > RECENT) recent.lastElementChild.remove();
  }

  loads();
  const timed = await schedules();
  const node = el("div", { class: "page" },
    el("h1", {}, "Organism"),
    el("ul", { class: "legend" }, LEGEND.map(([kind, word]) => el("li", {}, sign(kind), " ", word))),
    told.notes.map((note) => el("p", { class: "quiet" }, note)),
    el("div", { class: "beside" },
      el("section", { "aria-label": "Picture" },
        el("div", { class: "picture", tabindex: 0, role: "group", "aria-label": "Who may talk to whom" }, picture.node),
        chosen),
      el("section", { "aria-label": "Listeners" }, listed)),
    timed,
    el("section", { "aria-labelledby": "recent" },
      el("h2", { id: "recent" }, "What has just happened"),
      el("p", { class: "quiet none" }, "Nothing yet, since this page was opened."),
      recent));
  return { node, news, stop: () => traffic.stop(), shown: () => traffic.measure() };
}

function happened(hop) {
  return el("li", {}, spaced(
    when(hop.at), sign(look(hop.event)),
    el("span", { class: `event s-${look(hop.event)}` }, hop.event),
    way(hop.sender, hop.to), hop.root && el("span", {}, hop.root),
    link(["conversations", hop.conversation], "conversation"),
    (hop.why || hop.code) && el("span", { class: "why" }, [hop.code, hop.why].filter(Boolean).join(": "))));
}

// The picture: boxes and lines where the server has placed them.

function drawn(told) {
  const ways = new Map();
  const boxes = new Map();
  const [width, height] = [told.width + MARGIN, Math.max(told.height, 130)];
  const under = svg("g", {});
  const over = svg("g", { class: "traffic", "aria-hidden": "true" });
  for (const line of told.lines) {
    const path = svg("path", {
      d: line.way, class: "edge",
      "marker-end": line.forward && "url(#head)", "marker-start": line.backward && "url(#tail)",
    });
    ways.set(`${line.left}\n${line.right}`, { path, left: line.left, right: line.right });
    put(under, path);
  }
  const root = svg("svg", {
    class: "organism", viewBox: `${-MARGIN} 0 ${width} ${height}`, width, height, role: "group", "aria-label": told.name,
  },
  marker("head", 7.5, "M0,0.8 L8,4 L0,7.2 z"), marker("tail", 0.5, "M8,0.8 L0,4 L8,7.2 z"), under);

  root.style.setProperty("--natural", `${width}px`);

  const outside = { x: -MARGIN + 8, y: height / 2 - 14, width: 64, height: 28 };
  put(root, svg("g", { class: "outside" },
    svg("rect", { ...outside, rx: 14 }), svg("text", { x: outside.x + 32, y: height / 2 + 4, "text-anchor": "middle" }, "outside")));

  const view = { node: root, over, ways, boxes, outside, choose: () => {} };
  for (const box of told.boxes) put(root, boxed(box, view));
  put(root, over);

  const shown = new Map();
  view.load = (name, running, queued) => {
    const { load, group } = boxes.get(name);
    const text = [running && `${running} running`, queued && `${queued} queued`].filter(Boolean).join(", ");
    if (shown.get(name) === text) return;
    shown.set(name, text);
    replace(load, text);
    group.classList.toggle("working", running > 0);
    group.setAttribute("aria-label", `${name}, ${text || "idle"}`);
  };
  return view;
}

function boxed(box, view) {
  const load = svg("text", { class: "load", x: box.x + box.width / 2, y: box.y + box.height + 13, "text-anchor": "middle" });
  const group = svg("g", { class: `box${box.agent ? " agent" : ""}${box.broadcast ? " broadcast" : ""}`, tabindex: 0, role: "button" },
    svg("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: box.agent ? 14 : 3 }),
    svg("text", { x: box.x + box.width / 2, y: box.y + box.height / 2 + 4.5, "text-anchor": "middle" }, box.name), load);
  const near = (on) => {
    for (const one of view.ways.values()) {
      one.path.classList.toggle("near", on && (one.left === box.name || one.right === box.name));
    }
  };
  for (const [event, on] of [["mouseenter", true], ["focus", true], ["mouseleave", false], ["blur", false]]) {
    group.addEventListener(event, () => near(on));
  }
  group.addEventListener("click", () => view.choose(box.name));
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    view.choose(box.name);
  });
  view.boxes.set(box.name, { ...box, load, group });
  return group;
}

const marker = (id, refX, d) => svg("defs", {}, svg("marker", {
  id, viewBox: "0 0 8 8", refX, refY: 4, orient: "auto", markerUnits: "userSpaceOnUse", markerWidth: 10, markerHeight: 10,
}, svg("path", { d, class: "arrow" })));

