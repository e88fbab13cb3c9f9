"use strict";

// Draws answers by their keys, whatever their task. Keys that no view draws are shown as a table.
//
// A view has `fits(answer)`, the `keys` that it draws, `draw(answer, asked)`, which returns elements, `say(answer, asked)`,
// which returns a sentence for screen readers, and `targets(answer, asked)`: each `target` that can be explained, and
// its display name, `called`. `asked` has the `texts` of the item, such as a question and its choices, and the `run`.

const answers = (() => {
  const same = (text) => ({ target: text, called: text });

  const headline = (...parts) => element("p", { class: "headline" }, ...parts);

  // Labels with their scores.

  const isGiven = (answer, name) => [answer.label].flat().includes(name);

  function labels(answer) {
    const scores = Object.entries(answer.scores ?? { [answer.label]: answer.score });
    const rows = scores
      .sort((one, other) => other[1] - one[1])
      .map(([name, share]) => ({ name, share, text: percent(share), best: isGiven(answer, name) && phrase`predicted` }));
    const given = [answer.label].flat();
    return [
      headline(given.length ? given.join(", ") : element("span", { class: "muted" }, phrase`no label`)),
      barTable(phrase`Labels with their probabilities`, [phrase`label`, phrase`probability`], rows),
    ];
  }

  function sayLabels(answer) {
    const given = [answer.label].flat();
    const scored = given.map((name) => `${name}, ${percent(answer.scores?.[name] ?? answer.score)}`);
    return scored.length ? scored.join("; ") : phrase`no label`;
  }

  // Entities in their text.

  function entities(answer, asked) {
    const kinds = [...new Set(answer.entities.map((entity) => entity.label))];
    const series = (label) => `series-${(kinds.indexOf(label) % 6) + 1}`;
    const text = withSpans(asked.texts[0], answer.entities, (slice, entity) =>
      element(
        "mark",
        { class: `entity ${series(entity.label)}`, title: `${entity.label}, ${percent(entity.score)}` },
        slice,
        element("span", { class: "kind" }, `\u00a0${entity.label}`),
      ),
    );
    const rows = answer.entities.map((entity) => [entity.text, entity.label, percent(entity.score)]);
    return [
      element("p", { class: "running" }, ...text),
      answer.entities.length
        ? folded(phrase`As a table`, table(phrase`Entities`, [phrase`text`, phrase`kind`, phrase`probability`], rows))
        : element("p", { class: "muted" }, phrase`There is no entity in this text.`),
      answer.words ? folded(phrase`Every word`, words(answer.words)) : null,
    ];
  }

  function words(list) {
    const rows = list.map((word) => [word.text, word.tag, word.tag in word.scores ? percent(word.scores[word.tag]) : phrase`not read`]);
    return scrolling(phrase`Words with their tags`, table(phrase`Words with their tags`, [phrase`word`, phrase`tag`, phrase`probability`], rows));
  }

  // The explanation of an entity is that of its first word's tag.
  function entityTargets(answer) {
    return answer.entities.flatMap((entity) => {
      const first = (answer.words ?? []).find((word) => word.start >= entity.start);
      return first ? [{ target: first.text, called: entity.text }] : [];
    });
  }

  function sayEntities(answer) {
    const named = answer.entities.map((entity) => `${entity.text}, ${entity.label}`);
    return named.length ? named.join("; ") : phrase`no entity`;
  }

  // An answer in its context.

  function span(answer, asked) {
    const context = answer.answer === null ? [asked.texts[1]] : withSpans(asked.texts[1], [answer], (slice) => element("mark", { class: "answer" }, slice));
    const rows = (answer.n_best ?? []).map((one, number) => ({
      name: one.answer ?? phrase`no answer`,
      share: one.score,
      text: percent(one.score),
      best: number === 0 && one.answer === answer.answer && phrase`predicted`,
    }));
    return [
      answer.answer === null ? headline(element("span", { class: "muted" }, phrase`The context does not answer this.`)) : headline(answer.answer),
      element("p", { class: "running" }, ...context),
      rows.length ? barTable(phrase`Most likely answers`, [phrase`answer`, phrase`probability`], rows) : null,
    ];
  }

  // Words for masks.

  // Find the text that fills each mask, from the text between the masks; null if that is ambiguous.
  function fills(text, masks, filled) {
    const characters = charactersOf(text);
    const spans = [];
    let from = 0; // in the text
    let at = 0; // in the filled text; both in UTF-16 units
    for (const [number, mask] of masks.entries()) {
      const between = sliceOf(characters, from, mask.start).trimEnd();
      if (number && !between) return null;
      const found = filled.indexOf(between, at);
      if (found < 0) return null;
      if (number) spans.at(-1).end = found;
      at = found + between.length;
      spans.push({ start: at, end: filled.length });
      from = mask.end;
    }
    const tail = sliceOf(characters, from);
    if (!filled.endsWith(tail)) return null;
    if (spans.length) spans.at(-1).end = filled.length - tail.length;
    return spans;
  }

  function marked(filled, spans) {
    if (spans === null) return [filled];
    const parts = [];
    let at = 0;
    for (const { start, end } of spans) {
      const blanks = filled.slice(start, end).match(/^\s*/)[0].length;
      parts.push(filled.slice(at, start + blanks), element("mark", { class: "answer" }, filled.slice(start + blanks, end)));
      at = end;
    }
    return [...parts, filled.slice(at)];
  }

  function blanks(answer, asked) {
    const text = element("p", { class: "running large" });
    const show = (filled) => text.replaceChildren(...marked(filled, fills(asked.texts[0], answer.masks, filled)));
    show(answer.text);
    const tables = answer.masks.map((mask, number) => {
      const title = answer.masks.length > 1 ? phrase`Words for mask ${number + 1}` : phrase`Words for the mask`;
      if (!mask.candidates.length) return element("p", { class: "muted" }, phrase`${title}: the model did not read that far.`);
      const rows = mask.candidates.map((one) => ({
        name: element("button", { type: "button", class: "inline", title: phrase`Insert it into the text`, click: () => show(one.text) }, one.token),
        share: one.score,
        text: percent(one.score),
      }));
      return [element("h3", {}, title), barTable(title, [phrase`word`, phrase`probability`], rows)];
    });
    return [text, ...tables];
  }

  function follows(answer) {
    const rows = [
      { name: phrase`follows`, share: answer.next_sentence },
      { name: phrase`does not follow`, share: 1 - answer.next_sentence },
    ].map((row) => ({ ...row, text: percent(row.share), best: row.share >= 0.5 && phrase`more likely` }));
    return [headline(answer.next_sentence >= 0.5 ? phrase`The text follows` : phrase`The text does not follow`), barTable(phrase`Whether the text follows`, ["", phrase`probability`], rows)];
  }

  // Words that look replaced.

  function suspects(answer, asked) {
    const text = withSpans(asked.texts[0], answer.replaced, (slice, word) => element("mark", { class: "answer", title: percent(word.score) }, slice));
    const rows = (list) => list.map((word) => [word.text, percent(word.score)]);
    const head = [phrase`word`, phrase`probability`];
    return [
      element("p", { class: "running" }, ...text),
      answer.replaced.length
        ? table(phrase`Words that look replaced`, head, rows(answer.replaced))
        : element("p", { class: "muted" }, phrase`No word looks replaced.`),
      answer.words ? folded(phrase`Every word`, scrolling(phrase`Words`, table(phrase`Words`, head, rows(answer.words)))) : null,
    ];
  }

  // Choices in their order.

  function choice(answer, asked) {
    const rows = (answer.scores ?? [])
      .map((share, number) => ({ name: asked.texts[number + 1], share, text: percent(share), best: number === answer.choice && phrase`chosen` }))
      .sort((one, other) => other.share - one.share);
    return [headline(answer.text), barTable(phrase`Choices, most likely first`, [phrase`choice`, phrase`probability`], rows)];
  }

  // Vectors.

  function vector(answer) {
    const first = answer.vector.slice(0, 8).map((number) => number.toFixed(4));
    return [
      headline(phrase`A vector of ${counted(answer.vector.length)} numbers`),
      element("p", { class: "mono" }, `${first.join("  ")}  …`),
      element("p", { class: "muted" }, phrase`Add texts to compare with, to sort them by similarity.`),
    ];
  }

  function cosine(one, other) {
    const dot = (left, right) => left.reduce((sum, value, number) => sum + value * right[number], 0);
    return dot(one, other) / Math.sqrt(dot(one, one) * dot(other, other) || 1);
  }

  // Rank the other vectors by their similarity to the first.
  function ranked(list, texts) {
    return list
      .slice(1)
      .map((one, number) => ({ name: texts[number + 1], share: cosine(list[0].vector, one.vector) }))
      .sort((one, other) => other.share - one.share);
  }

  function nearest(list, texts) {
    const rows = ranked(list, texts).map((row, number) => ({ ...row, text: row.share.toFixed(3), best: number === 0 && phrase`nearest` }));
    return [headline(rows[0].name), barTable(phrase`Texts, nearest first`, [phrase`text`, phrase`similarity`], rows)];
  }

  // Everything else.

  function table(caption, head, rows) {
    return element(
      "table",
      {},
      element("caption", { class: "visually-hidden" }, caption),
      element("thead", {}, element("tr", {}, head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, rows.map((row) => element("tr", {}, row.map((cell) => element("td", {}, cell))))),
    );
  }

  // Any JSON as elements: objects as lists of names, lists of objects as tables.
  function readable(value) {
    if (value === null) return element("span", { class: "muted" }, phrase`none`);
    if (typeof value === "number") return rounded(value);
    if (typeof value !== "object") return String(value);
    if (!Array.isArray(value)) {
      const rows = Object.entries(value).map(([name, one]) => [element("dt", {}, spaced(name)), element("dd", {}, readable(one))]);
      return element("dl", { class: "facts" }, ...rows);
    }
    if (value.length > 50) {
      return element("span", {}, phrase`${counted(value.length)} entries; the first are `, readable(value.slice(0, 10)));
    }
    if (value.length && value.every((one) => one !== null && typeof one === "object" && !Array.isArray(one))) {
      const names = [...new Set(value.flatMap(Object.keys))];
      return table(phrase`Entries`, names.map(spaced), value.map((one) => names.map((name) => readable(one[name] ?? null))));
    }
    return element("span", {}, ...value.flatMap((one, number) => (number ? [", ", readable(one)] : [readable(one)])));
  }

  const VIEWS = [
    {
      fits: (answer) => "label" in answer,
      keys: ["label", "score", "scores"],
      draw: labels,
      say: sayLabels,
      targets: (answer) => Object.keys(answer.scores ?? {}).map(same),
    },
    {
      fits: (answer) => "entities" in answer,
      keys: ["entities", "words"],
      draw: entities,
      say: sayEntities,
      targets: entityTargets,
    },
    {
      fits: (answer) => "answer" in answer && "start" in answer,
      keys: ["answer", "start", "end", "score", "n_best", "margin"],
      draw: span,
      say: (answer) => answer.answer ?? phrase`The context does not answer this.`,
      targets: (answer) => (answer.n_best ?? []).map((one) => one.answer).filter((one) => one !== null).map(same),
    },
    {
      fits: (answer) => "masks" in answer,
      keys: ["text", "masks"],
      draw: blanks,
      say: (answer) => answer.text,
      targets: (answer) => (answer.masks.length === 1 ? answer.masks[0].candidates.map((one) => same(one.token)) : []),
    },
    {
      fits: (answer) => "replaced" in answer,
      keys: ["replaced", "words"],
      draw: suspects,
      say: (answer) => answer.replaced.map((word) => word.text).join(", ") || phrase`no word looks replaced`,
      targets: (answer) => (answer.words ?? answer.replaced).map((word) => same(word.text)),
    },
    {
      fits: (answer) => "next_sentence" in answer,
      keys: ["next_sentence"],
      draw: follows,
      say: (answer) => phrase`follows, ${percent(answer.next_sentence)}`,
    },
    {
      fits: (answer) => "choice" in answer,
      keys: ["choice", "text", "score", "scores"],
      draw: choice,
      say: (answer) => `${answer.text}, ${percent(answer.score)}`,
      targets: (answer, asked) => asked.texts.slice(1).map(same),
    },
    {
      fits: (answer) => "ended" in answer,
      keys: ["text", "score", "ended", "n_best", "source_words", "target_words", "alignments"],
      draw: (answer, asked) => writing.draw(answer, asked),
      say: (answer) => answer.text,
      targets: (answer) => writing.words(answer).map(same),
    },
    {
      fits: (answer) => "value" in answer,
      keys: ["value"],
      draw: (answer) => [headline(rounded(answer.value))],
      say: (answer) => rounded(answer.value),
    },
    { fits: (answer) => "vector" in answer, keys: ["vector"], draw: vector, say: (answer) => phrase`a vector of ${answer.vector.length} numbers` },
  ];
  const PLAIN = { fits: () => true, keys: [], draw: () => [], say: () => phrase`The answer is ready.`, targets: () => [] };
  const TOKENS = ["tokens_total", "tokens_used"];

  const viewOf = (answer) => VIEWS.find((view) => view.fits(answer)) ?? PLAIN;

  function tokens(list) {
    const sum = (key) => list.reduce((total, answer) => total + (answer[key] ?? 0), 0);
    const [total, used] = TOKENS.map(sum);
    if (!total) return null;
    if (used === total) return element("p", { class: "muted small" }, phrase`All ${counted(total)} tokens were read.`);
    return element("p", { class: "note warning" }, phrase`Only ${counted(used)} of ${counted(total)} tokens were read.`);
  }

  // Draw the answer for one item, or for several texts that are compared.
  function draw(list, asked) {
    if (list.length > 1) return [...nearest(list, asked.texts), tokens(list)];
    const [answer] = list;
    const view = viewOf(answer);
    const rest = Object.entries(answer).filter(([key]) => !view.keys.includes(key) && !TOKENS.includes(key));
    return [
      ...view.draw(answer, asked),
      rest.length ? readable(Object.fromEntries(rest)) : null,
      tokens(list),
    ];
  }

  function say(list, asked) {
    if (list.length > 1) return phrase`Nearest: ${ranked(list, asked.texts)[0].name}`;
    return viewOf(list[0]).say(list[0], asked);
  }

  function targets(list, asked) {
    const all = list.length > 1 ? [] : (viewOf(list[0]).targets?.(list[0], asked) ?? []);
    return all.filter((one, number) => all.findIndex((other) => other.target === one.target) === number);
  }

  return { draw, say, targets, table, readable };
})();
