"use strict";

// Answers a whole file: reads it in the browser, sends it in parts, and offers a CSV file.

const files = (() => {
  const TOGETHER = 64; // items of a request
  const MOST_CHARACTERS = 100_000; // of a request
  const MOST_TRIES = 20; // of a request that the server is too busy to answer
  const SHOWN = 5; // rows
  const BETWEEN = "|"; // texts in one cell

  let file = null;
  let run = null;
  let work = null; // aborts it

  const chosenColumns = () => [...byId("columns").querySelectorAll("select")].map((select) => select.value);

  function problem(text) {
    byId("file-problem").textContent = text;
  }

  // Read the first row of a file, and let the user choose the column of each input.
  async function open(chosen) {
    work?.abort();
    work = null;
    file = chosen;
    problem("");
    byId("file-result").replaceChildren();
    byId("file-spoken").textContent = "";
    byId("file-progress").hidden = true;
    byId("file-form").hidden = true;
    if (!file) return;
    byId("header-choice").hidden = !tables.hasHeader(file.name);
    try {
      const { value: first } = await rowsOf(() => {}).next();
      if (first === undefined) throw new Error(phrase`it is empty`);
      offer([...first.keys()]);
    } catch (error) {
      problem(reason(error));
    }
  }

  const rowsOf = (tell) => tables.rows(tables.textOf(file, tell), file.name, byId("header").checked);

  function reason(error) {
    if (error instanceof Refusal) return client.sentenceOf(error);
    const text = error instanceof TypeError ? phrase`it is not UTF-8 text` : error.message;
    return phrase`${file.name} cannot be read: ${text}.`;
  }

  function offer(names) {
    const fields = run.inputs.map((input, number) => {
      const choices = [...(input.optional ? [["", phrase`none`]] : []), ...names.map((name) => [name, name])];
      const select = element("select", {}, choices.map(([value, text]) => element("option", { value }, text)));
      select.value = likely(input, number, names);
      const several = input.several ? phrase` (a list, or texts separated by ${BETWEEN})` : "";
      return element("label", {}, phrase`${capital(sentence(input.name))}${several} is in`, select);
    });
    byId("columns").replaceChildren(...fields);
    byId("file-form").hidden = false;
    byId("file-start").textContent = phrase`Answer ${file.name}`;
    byId("file-spoken").textContent = "";
  }

  function likely(input, number, names) {
    const simple = (name) => name.toLowerCase().replaceAll(/[^a-z]/g, "");
    const same = names.find((name) => simple(name) === simple(input.name));
    return same ?? (input.optional ? "" : names[Math.min(number, names.length - 1)]);
  }

  // The texts of a row as an item for the server; null if the row is empty.
  function itemOf(row, columns) {
    const parts = columns.flatMap((column, number) => {
      const value = row.get(column) ?? "";
      if (run.inputs[number].several) return Array.isArray(value) ? value.map(String) : String(value).split(BETWEEN).map((part) => part.trim());
      if (run.inputs[number].optional && value === "") return [];
      return [typeof value === "string" ? value : JSON.stringify(value)];
    });
    if (!parts[0]?.trim()) return null;
    return parts.length === 1 ? parts[0] : parts;
  }

  // Request answers for some items. If the server is busy, try again; if they are too many, send half. An item that cannot
  // be answered gets the reason instead of an answer.
  async function answersTo(items, signal, tries = 0) {
    if (!items.length) return [];
    try {
      const { answers: list } = await client.predict(run.name, { texts: items }, signal);
      return list;
    } catch (error) {
      const { status, retry } = error;
      if ((status === 429 || status === 503) && tries < MOST_TRIES) {
        await pause(1000 * (retry ?? 1), signal);
        return answersTo(items, signal, tries + 1);
      }
      if (status !== 413 && status !== 422) throw error;
      if (items.length === 1) return [{ error: error.message }];
      const half = Math.ceil(items.length / 2);
      return [...(await answersTo(items.slice(0, half), signal)), ...(await answersTo(items.slice(half), signal))];
    }
  }

  const pause = (milliseconds, signal) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, milliseconds);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(signal.reason);
      });
    });

  async function answerAll() {
    work?.abort();
    const mine = (work = new AbortController());
    const { signal } = mine;
    const table = newTable();
    problem("");
    byId("file-result").replaceChildren();
    running(true);
    let ending = phrase`Done`;
    try {
      let some = [];
      let characters = 0;
      const columns = chosenColumns();
      for await (const row of rowsOf((bytes) => (byId("file-bar").value = Math.min(bytes / file.size, 0.99)))) {
        const item = itemOf(row, columns);
        some.push({ row, item });
        characters += [item ?? ""].flat().join("").length;
        if (some.length === TOGETHER || characters > MOST_CHARACTERS) {
          await answerSome(some, table, signal);
          [some, characters] = [[], 0];
        }
        signal.throwIfAborted();
      }
      await answerSome(some, table, signal);
      byId("file-bar").value = 1;
    } catch (error) {
      ending = phrase`Stopped`;
      if (error.name !== "AbortError") problem(reason(error));
    }
    if (work !== mine) return; // another file was chosen meanwhile
    running(false);
    finish(table, ending);
  }

  async function answerSome(some, table, signal) {
    const asked = some.filter(({ item }) => item !== null);
    const list = await answersTo(asked.map(({ item }) => item), signal);
    asked.forEach((one, number) => (one.answer = list[number]));
    for (const { row, answer } of some) table.add(row, answer ?? {});
    byId("file-count").textContent = phrase`${counted(table.count())} rows`;
  }

  // A growing CSV file. The columns of answers follow those of the file, and are renamed if a name is taken. A column
  // that first occurs later comes last, and is empty in earlier rows.
  function newTable() {
    const columns = [];
    const lines = []; // each with the columns known at that time
    const first = [];
    const has = (isAnswer, key) => columns.some((column) => column.isAnswer === isAnswer && column.key === key);
    const know = (isAnswer, keys) => keys.forEach((key) => has(isAnswer, key) || columns.push({ isAnswer, key }));
    const cellsOf = (row, answer) => columns.map(({ isAnswer, key }) => (isAnswer ? answer[key] : row.get(key)));
    const head = () => columns.map(({ isAnswer, key }) => (isAnswer && has(false, key) ? `answer ${key}` : key));
    return {
      add(row, answer) {
        know(false, [...row.keys()]);
        know(true, Object.keys(answer));
        if (lines.length < SHOWN) first.push([row, answer]);
        lines.push([tables.line(cellsOf(row, answer)), columns.length]);
      },
      count: () => lines.length,
      head,
      first: () => first.map(([row, answer]) => cellsOf(row, answer)),
      file() {
        const whole = lines.map(([line, width]) => line.replace(/\r\n$/, `${",".repeat(columns.length - width)}\r\n`));
        return new Blob([tables.line(head()), ...whole], { type: "text/csv" });
      },
    };
  }

  function finish(table, ending) {
    byId("file-spoken").textContent = phrase`${ending}: ${counted(table.count())} rows are answered.`;
    if (!table.count()) return;
    const name = `${file.name.replace(/(\.\w{1,6})(\.gz)?$/i, "")}-answers.csv`;
    const link = element("a", { id: "file-save", class: "button primary", href: URL.createObjectURL(table.file()), download: name }, phrase`Save ${name}`);
    const rows = table.first().map((cells) => cells.map((value) => shortened(value)));
    byId("file-result").replaceChildren(
      element("p", {}, link),
      scrolling(phrase`The first rows`, element("div", { class: "one-line" }, answers.table(phrase`The first rows`, table.head(), rows))),
    );
  }

  function shortened(value) {
    const text = typeof value === "string" ? value : JSON.stringify(value ?? "");
    const characters = charactersOf(text);
    return characters.length > 80 ? `${sliceOf(characters, 0, 80)}…` : text;
  }

  function running(is) {
    byId("file-progress").hidden = false;
    byId("file-stop").hidden = !is;
    byId("file-start").disabled = is;
    if (is) {
      byId("file-bar").value = 0;
      byId("file-count").textContent = "";
      byId("file-spoken").textContent = phrase`Answering…`;
    }
  }

  function setUp() {
    const drop = byId("drop");
    byId("file").addEventListener("change", (event) => open(event.target.files[0] ?? null));
    byId("file-form").addEventListener("submit", (event) => {
      event.preventDefault();
      answerAll();
    });
    byId("file-stop").addEventListener("click", () => work?.abort());
    byId("header").addEventListener("change", () => open(file));
    // A file dropped outside the field would replace the page.
    for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
    addEventListener("dragover", () => {
      byId("files").open = true;
      drop.classList.add("over");
    });
    addEventListener("dragleave", (event) => event.relatedTarget ?? drop.classList.remove("over"));
    addEventListener("drop", (event) => {
      drop.classList.remove("over");
      const [dropped] = event.dataTransfer?.files ?? [];
      if (dropped) open(dropped);
    });
  }

  return {
    setUp,
    // Another run needs other columns.
    useRun(chosen) {
      run = chosen;
      open(file);
    },
  };
})();
