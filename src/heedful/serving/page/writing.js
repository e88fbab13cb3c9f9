"use strict";

// Draws generated texts, and the word alignments of translations.

const writing = (() => {
  function draw(answer, asked) {
    const others = (answer.n_best ?? []).slice(1);
    return [
      ...("alignments" in answer ? aligned(answer, asked) : [element("p", { class: "running large" }, answer.text)]),
      answer.ended ? null : element("p", { class: "note warning" }, phrase`The text stops here because it reached the maximum number of tokens.`),
      others.length ? folded(others.length > 1 ? phrase`${others.length} other texts` : phrase`1 other text`, list(others)) : null,
    ];
  }

  function list(texts) {
    const items = texts.map((one) => element("li", {}, one.text, element("span", { class: "muted small" }, ` ${signed(one.score, 3)}`)));
    return element("ol", { start: "2", class: "others" }, ...items);
  }

  // Both texts with an element for each of `words`. Linked words are highlighted together, by the mouse, by the arrow
  // keys within a text, or by a click or tap, which keeps them highlighted.
  function aligned(answer, asked) {
    const texts = [asked.texts[0], answer.text];
    const spans = [answer.source_words, answer.target_words];
    const links = [answer.source_words.map(() => []), answer.target_words.map(() => [])];
    for (const [source, target] of answer.alignments) {
      links[0][source].push(target);
      links[1][target].push(source);
    }
    const made = [[], []];
    let kept = null;

    function light(side, number) {
      made.flat().forEach((word) => word.classList.remove("lit"));
      if (side === null) return;
      made[side][number].classList.add("lit");
      links[side][number].forEach((other) => made[1 - side][other].classList.add("lit"));
    }

    function keep(side, number) {
      kept = kept && kept[0] === side && kept[1] === number ? null : [side, number];
      made.flat().forEach((word) => word.setAttribute("aria-pressed", "false"));
      if (kept) made[side][number].setAttribute("aria-pressed", "true");
      light(...(kept ?? [side, number]));
    }

    function move(event, side, number) {
      const to = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: made[side].length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        keep(side, number);
      } else if (to !== undefined && made[side][to]) {
        event.preventDefault();
        made[side][number].tabIndex = -1;
        made[side][to].tabIndex = 0;
        made[side][to].focus();
      }
    }

    const back = () => light(...(kept ?? [null]));
    const names = [phrase`Source words; arrow keys move`, phrase`Words of the translation; arrow keys move`];
    const paragraphs = texts.map((text, side) => {
      const characters = spans.map((some, number) => [charactersOf(texts[number]), some]);
      const nameOf = (of, number) => sliceOf(characters[of][0], ...characters[of][1][number]);
      const words = spans[side].map(([start, end], number) => ({ start, end, number }));
      const drawn = withSpans(text, words, (slice, { number }) => {
        const linked = links[side][number].map((other) => nameOf(1 - side, other)).join(" ");
        const word = element(
          "span",
          {
            class: "word",
            role: "button",
            tabindex: number ? "-1" : "0",
            "aria-pressed": "false",
            "aria-label": !linked ? slice : side ? phrase`${slice}, from ${linked}` : phrase`${slice}, translated as ${linked}`,
            mouseenter: () => light(side, number),
            mouseleave: back,
            focus: () => light(side, number),
            blur: back,
            click: () => keep(side, number),
            keydown: (event) => move(event, side, number),
          },
          slice,
        );
        made[side].push(word);
        return word;
      });
      return element("p", { class: side ? "running large" : "running muted", role: "group", "aria-label": names[side] }, ...drawn);
    });
    return [paragraphs[1], paragraphs[0], element("p", { class: "muted small" }, phrase`Point at a word, tap it, or use the arrow keys to see which words it was translated from.`)];
  }

  // The words of a translation.
  function words(answer) {
    const characters = charactersOf(answer.text);
    return (answer.target_words ?? []).map(([start, end]) => sliceOf(characters, start, end));
  }

  return { draw, words };
})();
