// Small bar charts over time. A chart names its greatest value; the table behind it has every one.

import { day, el, svg, table } from "./dom.js";

const [WIDTH, HEIGHT, GAP] = [480, 72, 2];

const bars = (rows, value, most, look) => rows.map((row, at) => {
  const high = value(row) > 0 ? Math.max(2, (HEIGHT * value(row)) / most) : 0;
  const wide = WIDTH / rows.length;
  return high > 0 && svg("rect", { class: look, x: at * wide, y: HEIGHT - high, width: wide - GAP, height: high });
});

// Draw the values of rows, and further values of each as parts of its bar.
export function chart(title, rows, value, format, parts = []) {
  const most = Math.max(0, ...rows.map(value));
  const caption = `${title}: at most ${format(most)} in one of ${rows.length} intervals`;
  return el("figure", { class: "chart" },
    el("figcaption", {}, el("b", {}, title), el("span", { class: "quiet" }, `, at most ${format(most)}`)),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 1}`, role: "img", "aria-label": caption },
      bars(rows, value, most, "all"), parts.map(([name, part]) => bars(rows, part, most, name)),
      svg("path", { class: "ground", d: `M0,${HEIGHT + 0.5} L${WIDTH},${HEIGHT + 0.5}` })),
    rows.length > 1 && el("p", { class: "axis", "aria-hidden": "true" }, day(rows[0].start), day(rows.at(-1).start)),
    el("details", {}, el("summary", {}, "As a table"), table(title, [
      ["from", (row) => day(row.start)],
      [title.toLowerCase(), (row) => format(value(row)), "number"],
      ...parts.map(([name, part]) => [name, (row) => format(part(row)), "number"]),
    ], rows.filter((row) => value(row) > 0), "Nothing in this period.")));
}
