"use strict";

// Tokens that can be chosen by pointer and keyboard, and the view of weights in the text.

function element(name, className = "", text = "") {
  const node = document.createElement(name);
  node.className = className;
  node.textContent = text;
  return node;
}

// A token of only white space would be invisible.
const visibleText = (shown) => (shown.trim() ? shown : "␣".repeat(shown.length || 1));

function option(token, at, side, shown = token.shown) {
  const node = element("span", token.special ? "token special" : "token", visibleText(shown));
  node.setAttribute("role", "option");
  node.setAttribute("aria-selected", "false");
  node.dataset.at = at;
  node.dataset.side = side;
  node.tabIndex = -1;
  return node;
}

function fillTokens(list, picture, side) {
  const { tokens } = picture.map[side];
  // Other layers and heads have the same tokens. Keep these elements: one may have the focus.
  const shown = `${labelOf(picture.map)} ${picture[side]}`;
  if (list.dataset.shown === shown) return;
  list.dataset.shown = shown;
  list.setAttribute("role", "listbox");
  list.replaceChildren(...picture[side].map((at) => option(tokens[at], at, side)));
}

// Mark the chosen token, and shade the tokens of the other side by their weights.
function shadeTokens(list, picture, side, token) {
  const strongest = { weight: 0 };
  const weights = new Map();
  if (token && token.side !== side)
    for (const { at, weight } of ranked(picture, token)) {
      weights.set(at, weight);
      strongest.weight = Math.max(strongest.weight, weight);
    }
  let first = true;
  const nodes = list.querySelectorAll("[role=option]");
  for (const node of nodes) {
    const at = Number(node.dataset.at);
    const chosen = token?.side === node.dataset.side && token.at === at;
    // Set only what has changed: there may be a thousand tokens.
    if (node.tabIndex !== (chosen ? 0 : -1)) node.tabIndex = chosen ? 0 : -1;
    if (node.getAttribute("aria-selected") !== String(chosen)) node.setAttribute("aria-selected", chosen);
    if (chosen) first = false;
    const weight = weights.get(at) ?? 0;
    const share = strongest.weight ? (weight / strongest.weight).toFixed(2) : "0";
    if (node.style.getPropertyValue("--share") !== share) node.style.setProperty("--share", share);
    node.classList.toggle("lit", Number(share) > 0);
    node.title = weights.has(at) ? weight.toFixed(3) : "";
  }
  if (first && nodes.length) nodes[0].tabIndex = 0;
}

// Tab reaches one token of a list. From there arrow keys move, and Escape clears the choice.
function chooseTokens(list, side, choice, changed) {
  let wasChosen = false;
  const tokenOf = (node) => ({ side: node.dataset.side, at: Number(node.dataset.at) });
  const isChosen = (node) =>
    choice.token?.side === node.dataset.side && choice.token.at === Number(node.dataset.at);
  const optionOf = (event) => event.target.closest("[role=option]");

  list.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const node = optionOf(event);
    choice.over = node && tokenOf(node);
    changed("over");
  });
  list.addEventListener("pointerleave", () => {
    choice.over = null;
    changed("over");
  });
  list.addEventListener("pointerdown", (event) => {
    const node = optionOf(event);
    wasChosen = Boolean(node && isChosen(node));
  });
  list.addEventListener("click", (event) => {
    const node = optionOf(event);
    if (node && wasChosen) {
      choice.token = choice.over = null;
      changed("token");
    }
  });
  list.addEventListener("focusin", (event) => {
    const node = optionOf(event);
    if (!node || isChosen(node)) return;
    choice.token = tokenOf(node);
    choice.over = null;
    changed("token");
  });
  list.addEventListener("keydown", (event) => {
    const nodes = [...list.querySelectorAll("[role=option]")];
    const place = nodes.indexOf(optionOf(event));
    const to = {
      ArrowDown: place + 1,
      ArrowRight: place + 1,
      ArrowUp: place - 1,
      ArrowLeft: place - 1,
      Home: 0,
      End: nodes.length - 1,
      PageDown: Math.min(place + 10, nodes.length - 1),
      PageUp: Math.max(place - 10, 0),
    }[event.key];
    if (event.key === "Escape") {
      choice.token = choice.over = null;
      changed("token");
    } else if (to !== undefined) {
      event.preventDefault();
      nodes[to]?.focus();
    }
  });
}

// The text of a side, with an element for each token.
function runningText(side, visible, nodeOf) {
  const paragraph = element("p", "running");
  paragraph.dir = "auto";
  const there = new Set(visible);
  const unread = (text) => text.trim() ? element("span", "muted", text) : text;
  side.tokens.forEach((token, at) => {
    if (token.before) paragraph.append(unread(token.before));
    // If several tokens share characters, the last one shows them.
    if (token.slice && there.has(at)) paragraph.append(nodeOf(token, at));
    else if (!token.special) paragraph.append(element("span", "muted", token.slice));
    if (token.after) paragraph.append(unread(token.after));
  });
  return paragraph;
}

function tokenView(box, choice, changed) {
  const holder = element("div", "texts");
  const copies = element("div", "copies");
  copies.setAttribute("aria-hidden", "true");
  box.replaceChildren(holder, copies);
  let picture;
  let lists = [];

  // Within one text the same tokens attend and are attended to; `reverse` selects the role of the chosen token.
  const chosenSide = () => (choice.reverse ? "columns" : "rows");

  function show(next) {
    picture = next;
    if (picture.map.same && choice.token) choice.token.side = chosenSide();
    const sides = picture.map.same ? [chosenSide()] : ["rows", "columns"];
    const shown = `${labelOf(picture.map)} ${sides} ${sides.map((side) => picture[side])}`;
    if (holder.dataset.shown !== shown) build(sides);
    holder.dataset.shown = shown;
    mark();
  }

  function build(sides) {
    lists = sides.map((side) => {
      const list = runningText(picture.map[side], picture[side], (token, at) =>
        option(token, at, side, token.slice),
      );
      list.setAttribute("role", "listbox");
      list.setAttribute("aria-label", phrase`Tokens: ${sentence(picture.map[side].name)}`);
      chooseTokens(list, side, choice, changed);
      return list;
    });
    holder.replaceChildren(
      ...lists.flatMap((list, at) => [
        element("h3", "small muted", sentence(picture.map[sides[at]].name)),
        list,
      ]),
    );
  }

  function mark() {
    const token = choice.over ?? choice.token;
    for (const list of lists) shadeText(list, picture, token);
    copies.replaceChildren(...(choice.apart && token ? picture.heads.map((head) => copyOf(head, token)) : []));
  }

  function shadeText(list, part, token) {
    const side = list.querySelector("[role=option], [data-side]")?.dataset.side;
    const other = token?.side === "rows" ? "columns" : "rows";
    shadeTokens(list, part, part.map.same ? other : side, token);
    if (!part.map.same || !token) return;
    // An element is the token of both sides.
    for (const node of list.querySelectorAll("[data-at]"))
      node.setAttribute("aria-selected", Number(node.dataset.at) === token.at);
  }

  function copyOf(head, token) {
    const part = pictureOf(picture.map, { ...choice, only: head });
    const other = token.side === "rows" ? "columns" : "rows";
    const text = runningText(part.map[other], part[other], (one, at) =>
      option(one, at, other, one.slice),
    );
    shadeTokens(text, part, other, token);
    for (const node of text.querySelectorAll("[data-at]")) {
      node.removeAttribute("role");
      node.removeAttribute("tabindex");
      node.removeAttribute("aria-selected");
      if (picture.map.same && Number(node.dataset.at) === token.at) node.classList.add("chosen");
    }
    const copy = element("figure", "copy");
    copy.append(element("figcaption", "", phrase`Head ${head + 1}`), text);
    return copy;
  }

  return {
    show,
    mark,
    hint: () =>
      phrase`Choose a token: the others are shaded by their weights. ` +
      (choice.apart ? phrase`Each head has its own text below.` : phrase`The weights are means over the chosen heads.`),
  };
}
