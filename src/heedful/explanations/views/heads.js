"use strict";

// The head view: the tokens in two columns, and a line for each weight between them. Only visible
// lines are drawn, on a canvas as large as the visible part.

const MOST_LINES = 6000;
const FAINTEST = 13; // a weight of 0.0026

function headView(box, choice, changed) {
  const frame = element("div", "bipartite");
  const canvas = element("canvas");
  canvas.setAttribute("aria-hidden", "true");
  const lists = { rows: element("div", "tokens rows"), columns: element("div", "tokens columns") };
  const inside = element("div", "inside");
  inside.append(lists.rows, lists.columns);
  frame.append(canvas, inside);
  box.replaceChildren(frame);

  let picture, lines;

  function show(next) {
    picture = next;
    lists.rows.setAttribute("aria-label", phrase`Tokens that attend: ${sentence(picture.map.rows.name)}`);
    lists.columns.setAttribute("aria-label", phrase`Attended to: ${sentence(picture.map.columns.name)}`);
    fillTokens(lists.rows, picture, "rows");
    fillTokens(lists.columns, picture, "columns");
    mark();
  }

  // Redraw the lines for another token.
  function mark() {
    const token = choice.over ?? choice.token;
    const part = token ? { ...picture, [token.side]: [token.at] } : picture;
    lines = strongestLines(part, MOST_LINES, token ? 1 : FAINTEST);
    if (token) {
      const place = picture[token.side].indexOf(token.at);
      const end = token.side === "rows" ? "left" : "right";
      for (const line of lines) line[end] = place;
    }
    for (const side of ["rows", "columns"]) shadeTokens(lists[side], picture, side, token);
    draw();
  }

  function draw() {
    const ratio = devicePixelRatio || 1;
    const [width, height] = [frame.clientWidth, frame.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.translate(0, -frame.scrollTop);
    const left = lists.rows.offsetLeft + lists.rows.offsetWidth + 4;
    const right = lists.columns.offsetLeft - 4;
    const step = lists.rows.firstChild?.offsetHeight ?? 0;
    const [top, bottom] = [frame.scrollTop, frame.scrollTop + height];
    const colours = numbersUpTo(SERIES).map((at) => heedful.colour(`series-${at + 1}`));
    const brushes = new Map();
    for (const { head, left: from, right: to, byte } of lines) {
      const [start, end] = [(from + 0.5) * step, (to + 0.5) * step];
      if (Math.max(start, end) < top || Math.min(start, end) > bottom) continue;
      const strength = Math.ceil(16 * (byte / 255) ** 1.5);
      const key = head * 100 + strength;
      if (!brushes.has(key)) brushes.set(key, new Path2D());
      brushes.get(key).moveTo(left, start);
      brushes.get(key).lineTo(right, end);
    }
    for (const [key, path] of [...brushes].sort((one, other) => (one[0] % 100) - (other[0] % 100))) {
      const strength = (key % 100) / 16;
      pen.strokeStyle = colours[picture.heads[Math.floor(key / 100)] % SERIES];
      pen.globalAlpha = strength;
      pen.lineWidth = 0.75 + 1.5 * strength;
      pen.stroke(path);
    }
  }

  frame.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(() => picture && draw()).observe(frame);
  for (const side of ["rows", "columns"]) chooseTokens(lists[side], side, choice, changed);
  return {
    show,
    mark,
    hint: () =>
      phrase`Choose a token to see only its lines. Stronger lines mean larger weights; colours mark heads. Point at a head to see only its lines; Shift-click or double-click to keep only that head.` +
      (!choice.token && lines?.length >= MOST_LINES
        ? phrase` Only the ${lines.length.toLocaleString("en")} strongest lines are drawn; choose a token to see all of its lines.`
        : ""),
  };
}
