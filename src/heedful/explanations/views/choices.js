"use strict";

// The reader's choices, and the form for them.

const SERIES = 6;

const labelOf = ({ label, to }) => (to ? phrase`${sentence(label)}: ${sentence(to)}` : sentence(label));

function choicesOf(maps, changed) {
  const form = document.getElementById("choices");
  const headsBox = document.getElementById("choose-heads");
  const choice = {
    view: "heads",
    map: Math.max(0, maps.findIndex(isAlignment)), // the most interesting map of a translation
    layer: 0,
    heads: [],
    only: null, // the head under the pointer or with the focus
    special: true,
    apart: false,
    reverse: false,
    rows: null, // one text of a pair
    columns: null,
    token: null, // {side: "rows" or "columns", at: number}
  };

  function fill(select, options, selected) {
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    select.value = String(selected);
    select.parentElement.hidden = options.length < 2;
  }

  const texts = ({ texts: count, name }) => {
    const names = name.split(" and ");
    const label = (at) => (names.length === count ? sentence(names[at]) : phrase`text ${at + 1}`);
    return count < 2
      ? [["", sentence(name)]]
      : [["", phrase`both texts`], ...numbersUpTo(count).map((at) => [at, label(at)])];
  };

  function showMap() {
    const map = maps[choice.map];
    const layers = layersOf(map);
    if (!layers.includes(choice.layer)) choice.layer = layers.at(-1);
    fill(form.layer, layers.map((layer) => [layer, phrase`${layer + 1} of ${map.layers}`]), choice.layer);
    choice.rows = choice.columns = choice.token = null;
    fill(form.rows, texts(map.rows), "");
    fill(form.columns, texts(map.columns), "");
    const special = [...map.rows.tokens, ...map.columns.tokens].some((token) => token.special);
    document.getElementById("choose-special").hidden = !special;
    showHeads();
  }

  function showHeads() {
    const there = headsOf(maps[choice.map], choice.layer);
    choice.heads = there.filter((head) => choice.heads.includes(head));
    if (!choice.heads.length) choice.heads = there;
    choice.only = null;
    const all = document.createElement("button");
    all.type = "button";
    all.textContent = phrase`All heads`;
    all.className = "quiet";
    all.addEventListener("click", () => choose(there));
    headsBox.replaceChildren(all, ...there.map(headButton));
    headsBox.hidden = there.length < 2;
  }

  function headButton(head) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = `head series-${(head % SERIES) + 1}`;
    button.textContent = head + 1;
    button.dataset.head = head;
    button.setAttribute("aria-label", phrase`Head ${head + 1}`);
    button.setAttribute("aria-pressed", choice.heads.includes(head));
    button.addEventListener("click", (event) => {
      const without = choice.heads.filter((other) => other !== head);
      if (event.shiftKey) choose([head]);
      else if (without.length === choice.heads.length) choose([...choice.heads, head]);
      else if (without.length) choose(without);
    });
    button.addEventListener("dblclick", () => choose([head]));
    return button;
  }

  function choose(heads) {
    choice.heads = [...heads].sort((one, other) => one - other);
    for (const button of headsBox.querySelectorAll("[data-head]"))
      button.setAttribute("aria-pressed", choice.heads.includes(Number(button.dataset.head)));
    changed();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", ({ target }) => {
    const number = target.value === "" ? null : Number(target.value);
    if (target.type === "checkbox") choice[target.name] = target.checked;
    else choice[target.name] = number;
    if (target.name === "map") showMap();
    if (target.name === "layer") showHeads();
    changed();
  });

  fill(form.map, maps.map((map, at) => [at, labelOf(map)]), choice.map);
  choice.layer = layersOf(maps[choice.map]).at(-1);
  showMap();

  // Show one head of one layer, such as one chosen in the model view.
  choice.goTo = (layer, head) => {
    choice.layer = layer;
    form.layer.value = String(layer);
    choice.heads = [head];
    showHeads();
  };
  return choice;
}
