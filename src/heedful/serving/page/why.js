"use strict";

// Attributions of an answer to words, and the model's attention.

const why = (() => {
  let request = null;

  // The sides with scores, and their words.
  function scoredSides(explanation) {
    const [attribution] = explanation.attributions;
    return explanation.sides
      .map((side, number) => ({ side, scores: attribution.scores[number] }))
      .filter(({ scores }) => scores !== null)
      .map(({ side, scores }) => ({ side, words: wordsOf(side, scores) }));
  }

  // Show the scores of the words; the strongest word has the strongest colour.
  function draw(explanation) {
    const [attribution] = explanation.attributions;
    const scored = scoredSides(explanation);
    const scores = scored.flatMap(({ words }) => words.map((word) => word.score));
    const strongest = Math.max(...scores.map(Math.abs)) || 1;
    return [
      element("p", {}, phrase`Explained: `, element("strong", {}, sentence(attribution.target)), phrase`, by ${sentence(attribution.method.replaceAll("-", " "))}. `, ...legend(scores)),
      scored.map(({ side, words }) => [
        scored.length > 1 ? element("h3", {}, capital(sentence(side.name))) : null,
        ...side.texts.map((text, number) => element("p", { class: "running" }, ...shaded(text, words, number, strongest))),
        folded(phrase`As a table`, wordTable({ side, words })),
      ]),
      explanation.notes.map((note) => element("p", { class: "note small" }, sentence(note))),
      check(attribution.completeness),
    ];
  }

  function legend(scores) {
    return scores.some((score) => score < 0)
      ? [shade(phrase`Blue with a solid line`, 1), phrase` supports it, `, shade(phrase`orange with a dotted line`, -1), phrase` opposes it.`]
      : [phrase`The stronger the `, shade(phrase`blue`, 1), phrase`, the more a word matters.`];
  }

  // The words of a side: their positions, and the sums of their tokens' scores. Special tokens have no position.
  function wordsOf(side, scores) {
    const words = new Map();
    side.tokens.forEach((token, at) => {
      const id = token.word ?? `special ${at}`;
      const word = words.get(id) ?? { ...token, score: 0 };
      words.set(id, { ...word, end: token.end, score: word.score + scores[at] });
    });
    return [...words.values()];
  }

  function shaded(text, words, number, strongest) {
    const spans = words.filter((word) => word.text === number && word.end > word.start);
    return withSpans(text, spans, (slice, { score }) => shade(slice, score / strongest, signed(score, 3)));
  }

  // A piece of text in the colour of its score, from -1 to 1.
  function shade(text, strength, title) {
    const piece = element("span", { class: "weighed", title }, text);
    const colour = strength > 0 ? "var(--more)" : "var(--less)";
    const part = Math.abs(strength);
    if (part >= 0.1) {
      piece.style.backgroundColor = `color-mix(in srgb, ${colour} ${Math.round(45 * part)}%, transparent)`;
      piece.style.borderBottom = `2px ${strength > 0 ? "solid" : "dotted"} color-mix(in srgb, ${colour} ${Math.round(100 * part)}%, transparent)`;
    }
    return piece;
  }

  // Words with their scores, strongest first.
  function strongestFirst({ side, words }) {
    const texts = side.texts.map(charactersOf);
    return [...words]
      .sort((one, other) => Math.abs(other.score) - Math.abs(one.score))
      .map(({ piece, text, start, end, score }) => [text === null ? piece : sliceOf(texts[text], start, end), signed(score, 3)]);
  }

  function wordTable(scored) {
    return scrolling(phrase`Words with their scores`, answers.table(phrase`Words with their scores`, [phrase`word`, phrase`score`], strongestFirst(scored)));
  }

  function say(explanation) {
    const words = scoredSides(explanation).flatMap((one) => strongestFirst(one).slice(0, 3));
    const [{ target }] = explanation.attributions;
    const most = words.map(([word, score]) => `${word}, ${score}`).join("; ");
    return phrase`What matters most for ${sentence(target)}: ${most}`;
  }

  function check(completeness) {
    if (!completeness) return null;
    const { total, difference, steps, held } = completeness;
    if (held) return element("p", { class: "muted small" }, phrase`Checked: the scores add up to the change of the output, ${signed(difference, 3)} (${steps} steps).`);
    return element("p", { class: "note warning" }, phrase`The check failed: the scores add up to ${signed(total, 3)}, but the output changes by ${signed(difference, 3)} (${steps} steps). Do not trust single scores.`);
  }

  // Offer an explanation of the current answer.
  function offer(list, asked) {
    stop();
    const text = list.length > 1 ? null : asked.item;
    byId("why").hidden = text === null;
    byId("why-result").replaceChildren();
    byId("why-spoken").textContent = byId("why-problem").textContent = "";
    const targets = answers.targets(list, asked);
    byId("target-choice").hidden = !targets.length;
    byId("target").replaceChildren(
      element("option", { value: "" }, phrase`the answer`),
      ...targets.map(({ target, called }) => element("option", { value: target }, called)),
    );
    byId("why-button").onclick = (event) =>
      working(event.target, async (signal) => {
        const explanation = await client.explain(asked.run, subjectOf(text), signal);
        byId("why-result").replaceChildren(...draw(explanation).flat(Infinity).filter(Boolean));
        byId("why-spoken").textContent = say(explanation);
      });
    byId("attention-button").onclick = (event) =>
      working(event.target, async (signal) => {
        show(await client.explainHtml(asked.run, { ...subjectOf(text), attention: true }, signal), asked.run);
      });
  }

  function subjectOf(text) {
    const target = byId("target").value;
    return target ? { text, target } : { text };
  }

  function stop() {
    request?.abort();
    request = null;
  }

  // Mark a button as busy during a computation, and report errors.
  async function working(button, compute) {
    stop();
    request = new AbortController();
    button.classList.add("working");
    button.setAttribute("aria-busy", "true");
    byId("why-problem").textContent = "";
    try {
      await compute(request.signal);
    } catch (error) {
      if (error.name !== "AbortError") byId("why-problem").textContent = client.sentenceOf(error);
    } finally {
      button.classList.remove("working");
      button.removeAttribute("aria-busy");
    }
  }

  // Show the HTML of an explanation in a frame that is isolated from this page.
  function show(html, run) {
    const save = byId("attention-save");
    URL.revokeObjectURL(save.href);
    save.href = URL.createObjectURL(new Blob([html], { type: "text/html" }));
    save.download = `${run}-explanation.html`;
    const { theme } = document.documentElement.dataset;
    const themed = theme ? html.replace('<html lang="en"', `<html lang="en" data-theme="${theme}"`) : html;
    byId("attention-view").srcdoc = themed;
    byId("attention").showModal();
  }

  byId("attention-close").addEventListener("click", () => byId("attention").close());
  byId("attention").addEventListener("close", () => byId("attention-view").removeAttribute("srcdoc"));

  return { offer, stop };
})();
