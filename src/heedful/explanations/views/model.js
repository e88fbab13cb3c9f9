"use strict";

// The model view: a thumbnail of the lines of each head in each layer.

const LINES_OF_SMALL = 250;

function modelView(box, choice, changed) {
  const frame = element("div", "scroll");
  const table = element("table", "thumbnails");
  frame.append(table);
  box.replaceChildren(frame);
  let buttons = [];
  let map = null;
  let drawn = 0;

  function show(next) {
    if (map !== next.map) build(next.map);
    mark();
  }

  function build(next) {
    map = next;
    const heads = numbersUpTo(map.heads);
    const corner = element("td");
    const head = element("tr");
    head.append(corner, ...heads.map((number) => header("col", number + 1)));
    buttons = [];
    const rows = layersOf(map).map((layer) => {
      const row = element("tr");
      row.append(header("row", phrase`layer ${layer + 1}`));
      for (const number of heads) row.append(place(layer, number));
      return row;
    });
    table.replaceChildren(element("caption", "visually-hidden", phrase`Layers and heads`), head, ...rows);
    const current = buttons.find(isCurrent) ?? buttons[0];
    for (const button of buttons) button.tabIndex = button === current ? 0 : -1;
  }

  const isCurrent = (button) =>
    Number(button.dataset.layer) === choice.layer && choice.heads.includes(Number(button.dataset.head));

  function header(scope, text) {
    const node = element("th", "", text);
    node.scope = scope;
    return node;
  }

  function place(layer, head) {
    const cell = element("td");
    if (!(`${layer}.${head}` in map.bytes)) {
      cell.append(element("span", "muted", "–"));
      return cell;
    }
    const button = element("button", "thumbnail");
    button.type = "button";
    Object.assign(button.dataset, { layer, head });
    const habit = phrase`Layer ${layer + 1}, head ${head + 1}: ${habitOf(map, layer, head)}`;
    button.setAttribute("aria-label", habit);
    button.title = habit;
    button.append(element("canvas"));
    buttons.push(button);
    cell.append(button);
    return cell;
  }

  // Draw a few thumbnails per frame, so that many of them do not block the page.
  function mark() {
    const round = ++drawn;
    const waiting = [...buttons];
    const some = () => {
      const until = performance.now() + 12;
      while (waiting.length && performance.now() < until) thumbnail(waiting.shift());
      if (waiting.length && round === drawn) requestAnimationFrame(some);
      else box.dataset.done = round;
    };
    some();
  }

  function thumbnail(button) {
    const [layer, head] = [Number(button.dataset.layer), Number(button.dataset.head)];
    const picture = pictureOf(map, { ...choice, layer, only: head });
    const canvas = button.firstChild;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [48, 60];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.strokeStyle = heedful.colour(`series-${(head % SERIES) + 1}`);
    const [stepLeft, stepRight] = [height / picture.rows.length, height / picture.columns.length];
    for (const { left, right, byte } of strongestLines(picture, LINES_OF_SMALL, FAINTEST)) {
      pen.globalAlpha = Math.max(WEIGHT[byte], 0.04);
      pen.beginPath();
      pen.moveTo(2, (left + 0.5) * stepLeft);
      pen.lineTo(width - 2, (right + 0.5) * stepRight);
      pen.stroke();
    }
  }

  table.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    choice.goTo(Number(button.dataset.layer), Number(button.dataset.head));
    changed("view", "heads");
  });
  table.addEventListener("keydown", (event) => {
    const button = event.target.closest("button");
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!button || !step) return;
    event.preventDefault();
    const [layer, head] = [Number(button.dataset.layer) + step[0], Number(button.dataset.head) + step[1]];
    const to = table.querySelector(`[data-layer="${layer}"][data-head="${head}"]`);
    if (!to) return;
    button.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  });
  return {
    show,
    mark,
    hint: () => phrase`A small picture for each head of each layer. Choose one to enlarge it.`,
  };
}
