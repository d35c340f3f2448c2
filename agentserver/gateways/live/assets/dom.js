// Elements, made of names and texts. Whatever comes from the server becomes a text node or the value of a harmless
// attribute: nothing here, and nothing that uses it, reads markup.

const SVG = "http://www.w3.org/2000/svg";

const ATTRIBUTES = new Set([
  "aria-current", "aria-expanded", "aria-hidden", "aria-label", "aria-labelledby", "aria-live", "aria-pressed", "accept", "autocomplete", "class", "colspan", "cx", "data-label",
  "cy", "d", "datetime", "disabled", "for", "height", "id", "marker-end", "marker-start", "markerHeight", "markerUnits", "markerWidth", "max", "min",
  "name", "open", "orient", "points", "r", "refX", "refY", "required", "role", "rows", "rx", "scope", "spellcheck", "tabindex",
  "text-anchor", "transform", "type", "value", "viewBox", "width", "x", "y",
]);

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (!ATTRIBUTES.has(name)) throw new Error(`no attribute ${name} is set here`);
    if (value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : String(value));
  }
  put(node, ...children);
  return node;
}

export function put(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const el = (tag, attributes = {}, ...children) => made(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) => made(document.createElementNS(SVG, tag), attributes, children);

export function replace(node, ...children) {
  node.replaceChildren();
  return put(node, ...children);
}

// Parts of a line, with a space between two: whoever hears or copies it gets words.
export const spaced = (...parts) => parts.flat(Infinity).filter(Boolean).flatMap((part, at) => (at ? [" ", part] : [part]));

// A link inside of the page. The parts are names, which may hold anything.
export function link(parts, ...children) {
  const node = el("a", {}, ...children);
  node.setAttribute("href", `#/${parts.map(encodeURIComponent).join("/")}`);
  return node;
}

export function button(label, act, look = "") {
  const node = el("button", { type: "button", class: look }, label);
  node.addEventListener("click", act);
  return node;
}

// A table with a caption. Each column is a head, a function that returns the cell of a row, and a class. The roles are
// those of the elements, and stay when the style sheet puts the rows of a narrow table one below the other.
export function table(caption, columns, rows, empty) {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  return el("div", { class: "table" },
    el("table", { role: "table" },
      el("caption", {}, caption),
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, columns.map(([head, , look]) => el("th", { scope: "col", role: "columnheader", class: look }, head)))),
      el("tbody", { role: "rowgroup" }, rows.map((row) => el("tr", { role: "row" }, columns.map(([head, cell, look], at) =>
        at ? el("td", { role: "cell", class: look, "data-label": head || undefined }, cell(row))
          : el("th", { scope: "row", role: "rowheader", class: look }, cell(row))))))));
}

// A word about a state, in the colour of its kind.
export const pill = (kind, word) => el("span", { class: `pill ${kind}` }, word);

// Lines of styled segments, as the console and the traces have them.
export function lines(told, label) {
  const node = el("div", { class: "lines" }, told.map((line) =>
    el("div", {}, line.map(([style, text]) => el("span", { class: `s-${style}` }, text)))));
  if (label) made(node, { role: "group", "aria-label": label }, []);
  return node;
}

export const plain = (texts, label) => lines(texts.map((text) => [["plain", text]]), label);

// Shapes of what may happen to a message; each has a colour, a shape and a word.
const SHAPES = {
  message: () => svg("circle", { cx: 8, cy: 8, r: 5 }),
  good: () => svg("path", { d: "M8,1.5 A6.5,6.5 0 1 1 7.99,1.5 z M4.8,8.2 L7.2,10.6 L11.2,5.8" }),
  answer: () => svg("circle", { cx: 8, cy: 8, r: 4.5, class: "hollow" }),
  bad: () => svg("path", { d: "M8,1 L15,8 L8,15 L1,8 z M5.5,5.5 L10.5,10.5 M10.5,5.5 L5.5,10.5" }),
  warn: () => svg("path", { d: "M8,2 L15,14 L1,14 z M8,6.5 L8,10 M8,11.5 L8,12.5" }),
  quiet: () => svg("path", { d: "M3,8 L13,8" }),
};

const LOOKS = {
  refused: "bad", failed: "bad", withdrawn: "bad", approved: "good", sent: "message", received: "message",
  redriven: "message", answered: "answer",
  asked: "warn", flagged: "warn", retried: "warn", repaired: "warn", dropped: "warn", discarded: "warn", ended: "warn",
};

export const look = (event) => LOOKS[event] ?? "quiet";

export const shape = (kind) => svg("g", { class: `shape ${kind}` }, SHAPES[kind]());

export const sign = (kind) =>
  svg("svg", { class: "sign", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, shape(kind));

export const way = (from, to) => el("span", { class: "way" },
  from && [el("b", {}, from), el("span", { class: "quiet" }, " → ")], el("b", {}, to || "?"));

export const when = (seconds) => {
  const date = new Date(seconds * 1000);
  return el("time", { datetime: date.toISOString() }, date.toLocaleTimeString([], { hour12: false }));
};

export const day = (seconds) => {
  const date = new Date(seconds * 1000);
  const year = date.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return el("time", { datetime: date.toISOString() },
    date.toLocaleString([], { day: "numeric", month: "short", year, hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }));
};

export const count = (number) => number.toLocaleString("en");

export const money = (millionths) =>
  (millionths ? `$${(millionths / 1e6).toFixed(millionths < 10000 ? 6 : 2)}` : "");

export const span = (seconds) => {
  const left = Math.max(0, Math.floor(seconds));
  const [hours, minutes] = [Math.floor(left / 3600), Math.floor(left / 60) % 60];
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${left % 60} s` : `${left} s`;
};
