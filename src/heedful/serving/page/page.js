"use strict";

// The page: the chosen run, the form for its texts, and its answers.

(() => {
  const POLL = 1000; // milliseconds between two checks of whether the runs are ready

  let runs = [];
  let run = null;
  let request = null;

  // The address stores the chosen run; the default is the first.
  const addressOf = (one) => `#${encodeURIComponent(one.name)}`;
  const wanted = () => runs.find((one) => addressOf(one) === location.hash);

  async function start() {
    try {
      ({ runs } = await client.runs());
    } catch (error) {
      byId("waiting").textContent = "";
      if (error.status === 401) askForKey(client.sentenceOf(error), client.hasKey());
      else waitAgain(client.sentenceOf(error));
      return;
    }
    byId("key-form").hidden = true;
    byId("runs").hidden = false;
    const notReady = runs.filter((one) => !one.ready).map((one) => one.name);
    byId("waiting").textContent = notReady.length ? phrase`Getting ready: ${notReady.join(", ")} …` : "";
    if (notReady.length) setTimeout(start, POLL);
    if (run === null) showRuns();
  }

  function waitAgain(sentence) {
    byId("waiting").replaceChildren(sentence, " ", element("button", { type: "button", click: start }, phrase`Try again`));
  }

  function askForKey(sentence, wrong) {
    byId("runs").hidden = true;
    byId("key-form").hidden = false;
    byId("key-problem").textContent = wrong ? sentence : "";
    byId("key").focus();
  }

  function showRuns() {
    const select = byId("run");
    select.replaceChildren(...runs.map((one) => element("option", { value: one.name }, one.name)));
    byId("run-choice").hidden = runs.length < 2;
    useRun(wanted() ?? runs[0]);
  }

  function useRun(chosen) {
    run = chosen;
    byId("run").value = run.name;
    const shown = runs.length < 2 ? [element("strong", {}, run.name), ": "] : [];
    byId("about").replaceChildren(...shown, sentence(run.about));
    byId("inputs").replaceChildren(...run.inputs.map(field));
    byId("mask").hidden = run.mask === null;
    byId("mask").textContent = phrase`Insert ${run.mask}`;
    document.title = `${run.name} – heedful`;
    clearAnswer();
    files.useRun(run);
    showLines();
  }

  // There may be many texts to compare with, which are then ranked.
  const isMany = (input) => input.several || (input.optional && run.abilities.includes("embed"));

  function field(input, number) {
    const name = isMany(input) && !input.several ? `${input.name}s` : input.name;
    const hint = [isMany(input) && phrase`one per line`, input.optional && phrase`optional`].filter(Boolean).join(phrase`, `);
    const id = `input-${number}`;
    const isShort = input.optional ? !isMany(input) : number === 0 && run.inputs.some((other) => other !== input && !other.optional);
    const rows = isShort ? 2 : 6;
    const textarea = element("textarea", { id, rows, required: !input.optional, spellcheck: "false", autocomplete: "off", input: showLines });
    if (sees()) return pictureField(textarea, input);
    return element("p", {}, element("label", { for: id }, capital(sentence(name)), hint ? element("span", { class: "muted" }, ` (${hint})`) : null), textarea);
  }

  const sees = () => run.abilities.includes("see");

  // An image is sent as a data URL, which a hidden text field holds.
  function pictureField(holder, input) {
    holder.hidden = true;
    holder.required = false;
    const seen = element("img", { class: "seen", alt: "", hidden: true });
    const reader = new FileReader();
    reader.addEventListener("load", () => {
      holder.value = seen.src = reader.result;
      seen.hidden = false;
    });
    const take = (event) => event.target.files.length && reader.readAsDataURL(event.target.files[0]);
    const chooser = element("input", { id: "picture", class: "drop", type: "file", accept: "image/*", required: true, change: take });
    return element("p", {}, element("label", { for: "picture" }, capital(sentence(input.name))), chooser, seen, holder);
  }

  const fields = () => [...byId("inputs").querySelectorAll("textarea")];

  // The request for the server, and its texts in order.
  function questionOf(contents) {
    const parts = run.inputs.flatMap((input, number) => {
      const text = contents[number];
      if (isMany(input)) return text.split("\n").map((one) => one.trim()).filter(Boolean);
      return input.optional && !text.trim() ? [] : [text];
    });
    const compared = run.abilities.includes("embed");
    const item = parts.length === 1 ? parts[0] : parts;
    const options = run.options.includes("alignments") ? { options: { alignments: true } } : {};
    return { asked: { run: run.name, texts: parts, item: compared ? parts[0] : item }, body: { texts: compared ? parts : [item], ...options, ...(compared ? {} : { all_scores: true }) } };
  }

  function showLines() {
    const isEmpty = sees() || fields().every((one) => !one.value);
    program.show(run.name, questionOf(isEmpty ? run.inputs.map(example) : fields().map((one) => one.value)).body);
  }

  // Example texts for the program code while the form is empty.
  const example = (input) => (input.optional ? "" : isMany(input) ? phrase`a choice` + "\n" + phrase`another choice` : phrase`a ${sentence(input.name)}`);

  function clearAnswer() {
    request?.abort();
    request = null;
    why.stop();
    byId("why").hidden = byId("raw").hidden = true;
    byId("problem").textContent = "";
    byId("spoken").textContent = "";
    byId("answer").replaceChildren(element("p", { class: "muted" }, phrase`The answer will appear here.`));
  }

  async function answer(event) {
    event.preventDefault();
    request?.abort();
    const mine = (request = new AbortController());
    const { asked, body } = questionOf(fields().map((one) => one.value));
    byId("problem").textContent = "";
    byId("answer").classList.add("old");
    try {
      const { answers: list } = await client.predict(asked.run, body, mine.signal);
      byId("answer").replaceChildren(...answers.draw(list, asked).flat(Infinity).filter(Boolean));
      byId("spoken").textContent = answers.say(list, asked);
      showAnswer();
      byId("json").textContent = JSON.stringify(list.length > 1 ? list : list[0], null, 1);
      byId("raw").hidden = false;
      why.offer(list, asked);
    } catch (error) {
      if (error.name === "AbortError") return;
      clearAnswer();
      byId("answer").replaceChildren();
      if (error.status === 401) askForKey(client.sentenceOf(error), client.hasKey());
      else byId("problem").textContent = client.sentenceOf(error);
    } finally {
      if (request === mine || request === null) byId("answer").classList.remove("old");
    }
  }

  // On a phone the answer is below the visible part.
  function showAnswer() {
    const heading = byId("answer-heading");
    if (heading.getBoundingClientRect().top > 0.7 * innerHeight) heading.scrollIntoView({ behavior: heedful.still ? "auto" : "smooth" });
  }

  function insertMask() {
    const [first] = fields();
    first.setRangeText(run.mask, first.selectionStart, first.selectionEnd, "end");
    first.focus();
    showLines();
  }

  byId("ask").addEventListener("submit", answer);
  byId("ask").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
  });
  byId("mask").addEventListener("click", insertMask);
  byId("clear").addEventListener("click", () => {
    if (sees()) byId("inputs").replaceChildren(...run.inputs.map(field));
    fields().forEach((one) => (one.value = ""));
    clearAnswer();
    showLines();
    fields()[0].focus();
  });
  byId("run").addEventListener("change", (event) => {
    location.hash = addressOf(runs.find((one) => one.name === event.target.value));
  });
  addEventListener("hashchange", () => {
    if (wanted() && wanted() !== run) useRun(wanted());
  });
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    client.useKey(byId("key").value);
    byId("key").value = "";
    start();
  });
  files.setUp();
  byId("waiting").textContent = phrase`Loading the runs …`;
  start();
})();
