"use strict";

// Elements of the page, and slices of texts.

// Make an element: element("p", {class: "note", click: f}, "text", otherElement, ...).
// Strings become text, never HTML. An attribute that is a function becomes an event listener.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

const byId = (id) => document.getElementById(id);

const hidden = (text) => element("span", { class: "visually-hidden" }, text);

// The server counts Unicode code points; JavaScript counts UTF-16 units.
const charactersOf = (text) => Array.from(text);

const sliceOf = (characters, start, end) => characters.slice(start, end).join("");

// Split a text at spans that do not overlap: the result of `draw` for each span, and plain text in between.
// Spans have `start` and `end` in characters; draw(text of the span, span) returns an element.
function withSpans(text, spans, draw) {
  const characters = charactersOf(text);
  const parts = [];
  let at = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    parts.push(sliceOf(characters, at, span.start), draw(sliceOf(characters, span.start, span.end), span));
    at = span.end;
  }
  parts.push(sliceOf(characters, at));
  return parts.filter((part) => part !== "");
}

const counted = (count) => count.toLocaleString("en");

function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return share < 1 && share >= 0.9995 ? "> 99.9 %" : `${(100 * share).toFixed(1)} %`;
}

const signed = (number, digits) => `${number < 0 ? "−" : "+"}${Math.abs(number).toPrecision(digits)}`;

const rounded = (number) => (Number.isInteger(number) ? String(number) : String(Number(number.toPrecision(4))));

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const spaced = (name) => name.replaceAll("_", " ").replaceAll("-", " ");

function scrolling(label, ...children) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);
}

function folded(summary, ...children) {
  return element("details", {}, element("summary", {}, summary), ...children);
}

// A table with a bar for each row. Rows have `name`, `share` from 0 to 1 for the bar, `text` for the number,
// and optionally a badge, `best`. Of a long list, only the first rows are open.
function barTable(caption, head, rows, most = 12) {
  const tableOf = (some, title) =>
    element(
      "table",
      { class: "bars" },
      element("caption", { class: "visually-hidden" }, title),
      element(
        "thead",
        { class: "visually-hidden" },
        element("tr", {}, head.map((name) => element("th", { scope: "col" }, name))),
      ),
      element("tbody", {}, some.map(barRow)),
    );
  if (rows.length <= most) return tableOf(rows, caption);
  const rest = rows.slice(most);
  return element(
    "div",
    {},
    tableOf(rows.slice(0, most), caption),
    folded(phrase`${counted(rest.length)} more`, tableOf(rest, phrase`${caption}, continued`)),
  );
}

function barRow(row) {
  const bar = element("span", { class: row.best ? "bar best" : "bar" });
  bar.style.width = `${100 * Math.min(Math.max(row.share, 0), 1)}%`;
  const track = element("span", { class: "track", "aria-hidden": "true" }, bar);
  return element(
    "tr",
    { class: row.best ? "best" : null },
    element("th", { scope: "row" }, row.name, row.best ? hidden(` (${row.best})`) : null, track),
    element("td", { class: "number" }, row.text),
  );
}
