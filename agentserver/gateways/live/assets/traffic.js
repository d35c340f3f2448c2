// Messages on their way over the picture. Those beyond what an eye can follow are counted at their line.

import { look, replace, shape, svg } from "./dom.js";

const MOST = 200; // on their way at once
const LASTS = 900; // milliseconds from box to box
const STAYS = 7000; // a refusal is seen for so long
const COUNTED = 2500; // a count is

const QUIET = new Set(["received", "handled", "closed", "approved", "ended", "repaired", "retried", "dropped", "discarded"]);

export class Traffic {
  constructor(picture, told, boxOf) {
    this.picture = picture;
    this.boxOf = boxOf;
    this.dots = new Set();
    this.counts = new Map();
    this.lanes = new Map();
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.frame = 0;
    this.step = this.step.bind(this);
  }

  measure() {
    for (const [key, { path }] of this.picture.ways) this.lanes.set(key, lane(path));
  }

  stop() {
    cancelAnimationFrame(this.frame);
    this.dots.clear();
  }

  hop(hop) {
    if (QUIET.has(hop.event)) return;
    const kind = hop.event === "sent" && this.answers(hop) ? "answer" : look(hop.event);
    const found = this.lane(hop.sender, hop.to, kind === "bad" || kind === "warn");
    if (!found) return;
    if (kind === "bad" || kind === "warn") this.mark(found, kind, hop);
    else this.send(found, kind);
  }

  counted(sender, to, times) {
    const found = this.lane(sender, to, false);
    if (found) this.count(found, times);
  }

  // An answer goes back over a line that leads the other way alone.
  answers({ sender, to }) {
    const [from, goal] = [this.boxOf.get(sender), this.boxOf.get(to)];
    const one = this.picture.ways.get(`${from}\n${goal}`) ?? this.picture.ways.get(`${goal}\n${from}`);
    const ahead = one && one.left === from;
    return Boolean(one) && !one.path.hasAttribute(ahead ? "marker-end" : "marker-start");
  }

  lane(sender, to, stub) {
    const { boxes, outside } = this.picture;
    if (sender.startsWith("system") || to.startsWith("system")) return null;
    const [from, goal] = [this.boxOf.get(sender), this.boxOf.get(to)];
    if (from && from === goal) return { lane: this.straight(`${from} itself`, near(boxes.get(from)), near(boxes.get(from))), back: false };
    if (from && goal) {
      const ahead = this.lanes.get(`${from}\n${goal}`);
      if (ahead) return { lane: ahead, back: false };
      const back = this.lanes.get(`${goal}\n${from}`);
      if (back) return { lane: back, back: true };
      return { lane: this.straight(`${from}\n${goal}`, middle(boxes.get(from)), middle(boxes.get(goal))), back: false };
    }
    if (goal) return { lane: this.straight(`\n${goal}`, right(outside), left(boxes.get(goal))), back: false };
    if (from && !stub) return { lane: this.straight(`\n${from}`, right(outside), left(boxes.get(from))), back: true };
    if (from) return { lane: this.straight(`${from}\n`, near(boxes.get(from)), near(boxes.get(from))), back: false };
    return null;
  }

  // A line that the organism does not have: to somebody outside, or to a listener that is no peer.
  straight(key, a, b) {
    if (!this.lanes.has(key)) {
      const path = svg("path", { d: `M${a[0]},${a[1]} L${b[0]},${b[1]}`, class: "edge extra" });
      this.picture.over.before(path);
      this.lanes.set(key, lane(path));
    }
    return this.lanes.get(key);
  }

  send({ lane, back }, kind) {
    if (this.dots.size >= MOST) return this.count({ lane }, 1);
    const node = shape(kind);
    node.classList.add("dot");
    const dot = { node, lane, back, began: performance.now() };
    place(node, lane, this.still.matches ? 0.5 : Number(back));
    this.picture.over.append(node);
    if (this.still.matches) {
      setTimeout(() => node.remove(), LASTS);
      return;
    }
    this.dots.add(dot);
    if (this.dots.size === 1) this.frame = requestAnimationFrame(this.step);
  }

  step(now) {
    for (const dot of this.dots) {
      const part = (now - dot.began) / LASTS;
      if (part >= 1) {
        dot.node.remove();
        this.dots.delete(dot);
      } else place(dot.node, dot.lane, dot.back ? 1 - part : Math.max(0, part));
    }
    if (this.dots.size) this.frame = requestAnimationFrame(this.step);
  }

  // A refusal stops where it is, and stays for a while.
  mark({ lane, back }, kind, hop) {
    const shown = lane.marks ?? 0;
    if (shown >= 3) return this.count({ lane }, 1);
    lane.marks = shown + 1;
    const node = shape(kind);
    node.classList.add("mark");
    place(node, lane, (back ? 0.25 : 0.78) - (back ? -0.13 : 0.13) * shown);
    const group = this.picture.boxes.get(this.boxOf.get(hop.sender))?.group;
    group?.classList.toggle("objected", kind === "bad");
    this.picture.over.append(node);
    setTimeout(() => {
      lane.marks--;
      node.remove();
      if (!lane.marks) group?.classList.remove("objected");
    }, STAYS);
  }

  count({ lane }, times) {
    const known = this.counts.get(lane) ?? { times: 0, node: svg("text", { class: "counted", "text-anchor": "middle" }) };
    known.times += times;
    replace(known.node, `×${known.times}`);
    place(known.node, lane, 0.5);
    if (!known.node.isConnected) this.picture.over.append(known.node);
    clearTimeout(known.timer);
    known.timer = setTimeout(() => {
      known.node.remove();
      this.counts.delete(lane);
    }, COUNTED);
    this.counts.set(lane, known);
  }
}

const STEPS = 32; // points of a line that are measured, when something first moves along it; between two it is straight

const lane = (path) => ({ path, points: null });

function measured(path) {
  const length = path.getTotalLength();
  return Array.from({ length: STEPS + 1 }, (_, at) => path.getPointAtLength((length * at) / STEPS));
}

function place(node, lane, part) {
  lane.points ??= measured(lane.path);
  const at = Math.min(STEPS - 1, Math.floor(part * STEPS));
  const [from, to] = [lane.points[at], lane.points[at + 1]];
  const rest = part * STEPS - at;
  const [x, y] = [from.x + rest * (to.x - from.x), from.y + rest * (to.y - from.y)];
  node.setAttribute("transform", `translate(${(x - 8).toFixed(1)} ${(y - 8).toFixed(1)})`);
}

const middle = (box) => [box.x + box.width / 2, box.y + box.height / 2];
const left = (box) => [box.x, box.y + box.height / 2];
const right = (box) => [box.x + box.width, box.y + box.height / 2];
const near = (box) => [box.x + box.width - 4, box.y];
