"use strict";

// The matrix view: a row for each token that attends, a column for each that is attended to, as in
// figure 3 of Bahdanau et al. (2015).

function matrixView(box, choice, changed) {
  const frame = element("div", "scroll matrix");
  const canvas = element("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  frame.append(canvas);
  box.replaceChildren(frame);

  let picture, pixels;
  let cell = 0;
  let largest = 0;
  let [left, top] = [0, 0];
  let at = null; // position of the current cell: [row, column]

  function show(next) {
    picture = next;
    at = null;
    canvas.setAttribute(
      "aria-label",
      phrase`Matrix of weights, from ${sentence(picture.map.rows.name)} to ${sentence(picture.map.columns.name)}. Arrow keys go from cell to cell. The table has the same numbers.`,
    );
    mark();
  }

  function mark() {
    paint();
    draw();
  }

  const rgb = (name) => heedful.colour(name).match(/[\d.]+/g).slice(0, 3).map(Number);

  // One pixel per weight; the canvas scales them up.
  function paint() {
    const [rows, columns] = [picture.rows.length, picture.columns.length];
    const [paper, ink] = [rgb("raised"), rgb("accent")];
    const image = new ImageData(Math.max(columns, 1), Math.max(rows, 1));
    const weights = picture.rows.flatMap((row) =>
      picture.columns.map((column) => meanWeight(picture, row, column)),
    );
    largest = weights.reduce((one, other) => Math.max(one, other), 0);
    weights.forEach((weight, place) => {
      const share = largest ? Math.sqrt(weight / largest) : 0;
      for (let part = 0; part < 3; part++)
        image.data[4 * place + part] = paper[part] + (ink[part] - paper[part]) * share;
      image.data[4 * place + 3] = 255;
    });
    pixels = new OffscreenCanvas(image.width, image.height);
    pixels.getContext("2d").putImageData(image, 0, 0);
  }

  function draw() {
    const [rows, columns] = [picture.rows.length, picture.columns.length];
    const pen = canvas.getContext("2d");
    const font = `13px ${getComputedStyle(document.body).fontFamily}`;
    const names = (side) =>
      picture[side].map((token) => visibleText(picture.map[side].tokens[token].shown));
    const room = box.clientWidth;
    pen.font = font;
    const longest = (texts) =>
      Math.min(130, Math.max(0, ...texts.map((text) => pen.measureText(text).width)) + 10);
    [left, top] = [longest(names("rows")), longest(names("columns"))];
    cell = Math.min(36, Math.max((room - left) / columns, 1.5));
    const named = cell >= 13 || (room < 600 && columns <= 60);
    if (named) cell = Math.max(cell, 15);
    else [left, top] = [0, 0];
    const ratio = devicePixelRatio || 1;
    const [width, height] = [left + cell * columns, top + cell * rows];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    pen.scale(ratio, ratio);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(pixels, left, top, cell * columns, cell * rows);
    pen.font = font;
    pen.textBaseline = "middle";
    if (named) label(pen, names);
    outline(pen);
  }

  function label(pen, names) {
    const [ink, muted] = [heedful.colour("ink"), heedful.colour("muted")];
    const isAt = (side, place) => at && at[side] === place;
    names("rows").forEach((text, row) => {
      pen.fillStyle = isAt(0, row) ? ink : muted;
      pen.textAlign = "right";
      pen.fillText(text, left - 6, top + (row + 0.5) * cell, left - 8);
    });
    names("columns").forEach((text, column) => {
      pen.save();
      pen.fillStyle = isAt(1, column) ? ink : muted;
      pen.translate(left + (column + 0.5) * cell, top - 6);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
      pen.fillText(text, 0, 0, top - 8);
      pen.restore();
    });
  }

  function outline(pen) {
    pen.lineWidth = 2;
    pen.strokeStyle = heedful.colour("ink");
    if (choice.token) {
      const place = picture[choice.token.side].indexOf(choice.token.at);
      const [rows, columns] = [picture.rows.length, picture.columns.length];
      if (place < 0) return;
      if (choice.token.side === "rows") pen.strokeRect(left + 1, top + place * cell, columns * cell - 2, cell);
      else pen.strokeRect(left + place * cell, top + 1, cell, rows * cell - 2);
    }
    if (at) pen.strokeRect(left + at[1] * cell, top + at[0] * cell, cell, cell);
  }

  function goTo(row, column, aloud) {
    const inside = row >= 0 && column >= 0 && row < picture.rows.length && column < picture.columns.length;
    const before = String(at);
    at = inside ? [row, column] : null;
    if (String(at) === before) return;
    draw();
    changed("cell", inside ? { text: cellText(), aloud } : null);
  }

  function cellText() {
    const [row, column] = [picture.rows[at[0]], picture.columns[at[1]]];
    const name = (side, token) => visibleText(picture.map[side].tokens[token].shown);
    const weight = meanWeight(picture, row, column).toFixed(3);
    return phrase`“${name("rows", row)}” to “${name("columns", column)}”: ${weight}`;
  }

  canvas.addEventListener("pointermove", (event) => {
    goTo(Math.floor((event.offsetY - top) / cell), Math.floor((event.offsetX - left) / cell), false);
  });
  canvas.addEventListener("pointerleave", () => goTo(-1, -1, false));
  canvas.addEventListener("click", () => {
    if (!at) return;
    choice.token = { side: "rows", at: picture.rows[at[0]] };
    changed("token");
  });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (event.key === "Escape") {
      choice.token = null;
      changed("token");
    } else if (event.key === "Enter" && at) {
      canvas.click();
    } else if (move) {
      event.preventDefault();
      const [row, column] = at ?? [0, -1];
      const within = (place, count) => Math.min(Math.max(place, 0), count - 1);
      goTo(
        within(at ? row + move[0] : 0, picture.rows.length),
        within(at ? column + move[1] : 0, picture.columns.length),
        true,
      );
    }
  });
  new ResizeObserver(() => picture && draw()).observe(box);
  return {
    show,
    mark,
    hint: () =>
      phrase`Each row is a token that attends, each column a token that it attends to. Stronger colours mean larger weights, up to ${largest.toFixed(3)}; click to list a whole row.`,
  };
}
