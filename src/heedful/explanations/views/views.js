"use strict";

// The tabs, and the table next to each view.

const MOST_ROWS = 50;

(async () => {
  const VIEWS = { heads: headView, model: modelView, tokens: tokenView, matrix: matrixView };
  const byId = (id) => document.getElementById(id);
  const maps = await readMaps(heedful.data("explanation"));
  byId("waiting").hidden = true;
  if (!maps.length) return; // all weights are omitted, as the page states

  const choice = choicesOf(maps, () => showPicture());
  let picture, view;
  let frame = 0;
  byId("attention").hidden = false;

  function showView(name) {
    choice.view = name;
    choice.over = null;
    for (const tab of document.querySelectorAll("[role=tab]")) {
      const chosen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
    }
    byId("panel").setAttribute("aria-labelledby", `tab-${name}`);
    const isModel = name === "model";
    for (const id of ["choose-layer", "choose-heads"]) byId(id).classList.toggle("unused", isModel);
    for (const id of ["choose-apart", "choose-reverse"])
      byId(id).hidden = name !== "tokens";
    byId("numbers-box").hidden = isModel;
    byId("panel").classList.toggle("wide", isModel);
    view = VIEWS[name](byId("view"), choice, happened);
    showPicture();
  }

  function showPicture() {
    const map = maps[choice.map];
    byId("tab-model").hidden = map.layers * map.heads === 1 && choice.view !== "model";
    byId("choose-reverse").hidden = choice.view !== "tokens" || !maps[choice.map].same;
    picture = pictureOf(maps[choice.map], choice);
    view.show(picture);
    tell();
  }

  // Called by a view when another token, cell or view is selected.
  function happened(what, detail) {
    if (what === "view") {
      showView(detail);
      byId(`tab-${detail}`).focus();
    } else if (what === "cell") {
      byId("hint").textContent = detail?.text ?? view.hint();
      if (detail?.aloud) byId("status").textContent = detail.text;
    } else if (what === "token") {
      view.mark();
      tell(true);
    } else {
      // The pointer may pass over many tokens before the next frame.
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => {
        view.mark();
        tell();
      });
    }
  }

  function tell(aloud = false) {
    byId("hint").textContent = view.hint();
    if (choice.view !== "model") showNumbers(aloud);
  }

  const name = (side, at) => visibleText(picture.map[side].tokens[at].shown);

  function showNumbers(aloud) {
    const token = choice.over ?? choice.token;
    const mean = picture.heads.length > 1 ? phrase`mean of ${picture.heads.length} heads` : phrase`head ${picture.heads[0] + 1}`;
    const where = phrase`layer ${picture.layer + 1}, ${mean}`;
    if (!token) {
      const rows = picture.rows.map((at) => {
        const [best] = ranked(picture, { side: "rows", at });
        return best ? [name("rows", at), name("columns", best.at), best.at + 1, best.weight.toFixed(3)] : [];
      });
      const heads = [phrase`token`, phrase`attends most to`, phrase`number`, phrase`weight`];
      showTable(phrase`What each token attends to most: ${where}`, heads, rows);
      byId("status").textContent = "";
      return;
    }
    const attends = token.side === "rows";
    const other = attends ? "columns" : "rows";
    const weights = ranked(picture, token);
    const pair = (at) => (attends ? [token.at, at] : [at, token.at]);
    const many = picture.heads.length > 1;
    const rows = weights.slice(0, MOST_ROWS).map(({ at, weight }) => [
      name(other, at),
      at + 1,
      ...(many ? [strongestHead(picture, ...pair(at)) + 1] : []),
      weight.toFixed(3),
    ]);
    const heads = [phrase`token`, phrase`number`, ...(many ? [phrase`strongest head`] : []), phrase`weight`];
    const part = rows.length < weights.length ? phrase`, the ${rows.length} strongest of ${weights.length}` : "";
    const chosen = name(token.side, token.at);
    const caption = attends ? phrase`“${chosen}” attends to: ${where}${part}` : phrase`“${chosen}” is attended to by: ${where}${part}`;
    showTable(caption, heads, rows);
    const first = weights.slice(0, 3).map(({ at, weight }) => `${name(other, at)} ${weight.toFixed(2)}`).join(", ");
    if (aloud) byId("status").textContent = attends ? phrase`${chosen} attends to ${first}` : phrase`${chosen} is attended to by ${first}`;
  }

  function showTable(caption, heads, rows) {
    const last = heads.length - 1;
    const cells = (kind, texts) => {
      const row = element("tr");
      texts.forEach((text, at) => {
        const cell = element(kind, at === last || typeof text === "number" ? "number" : "", text);
        if (kind === "th") cell.scope = "col";
        row.append(cell);
      });
      return row;
    };
    byId("numbers-caption").textContent = caption;
    document.querySelector("#numbers thead").replaceChildren(cells("th", heads));
    document.querySelector("#numbers tbody").replaceChildren(...rows.map((row) => cells("td", row)));
  }

  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const tab of tabs) tab.addEventListener("click", () => showView(tab.id.replace("tab-", "")));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const shown = tabs.filter((tab) => !tab.hidden);
    const to = shown.at((shown.indexOf(event.target) + step) % shown.length);
    to.focus();
    to.click();
  });

  // Show only the head under the pointer.
  const heads = byId("choose-heads");
  const point = (event) => {
    const head = event.target.closest?.("[data-head]");
    const only = event.type === "pointerleave" || event.pointerType === "touch" || !head ? null : Number(head.dataset.head);
    if (only === choice.only) return;
    choice.only = only;
    showPicture();
  };
  heads.addEventListener("pointerover", point);
  heads.addEventListener("pointerleave", point);

  heedful.onTheme(() => view.mark());
  showView(isAlignment(maps[choice.map]) ? "matrix" : "heads");
})();
