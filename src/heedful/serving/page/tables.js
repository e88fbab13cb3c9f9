"use strict";

// Files of items: CSV and TSV (RFC 4180), JSON lines, and text with one item a line, read piece by piece as it comes; and
// JSON documents, read as a whole.

const tables = (() => {
  const FORMULA = /^ *[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/; // the last four are full-width
  const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  const MOST_CHARACTERS = 1_000_000; // of one row

  // A CSV cell. Spreadsheets run cells that look like formulas (CWE-1236); a quote in front makes them text.
  function cell(value) {
    if (value === null || value === undefined) return "";
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    let text = typeof value === "string" ? value : JSON.stringify(value);
    if (FORMULA.test(text) && !NUMBER.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  const line = (cells) => `${cells.map(cell).join(",")}\r\n`;

  // The delimiter of a CSV file, by the rule of the commands: the comma, or else ; or tab, outside quotes in the header.
  function delimiterOf(start) {
    const [first] = start.replaceAll(/"[^"]*"/g, "").split(/\r?\n/, 1);
    return [",", ";", "\t"].find((mark) => first.includes(mark)) ?? ",";
  }

  // Splits a table into rows, one character at a time.
  class Cutter {
    #delimiter;
    #row = [];
    #field = "";
    #state = "start"; // of a field; then plain, quoted, or quote (after a quote within quotes)
    #previous = "";

    constructor(delimiter) {
      this.#delimiter = delimiter;
    }

    // Read a character; return the row that it completes, or null.
    take(character) {
      const previous = this.#previous;
      this.#previous = character;
      if (this.#state === "quoted") {
        if (character === '"') this.#state = "quote";
        else this.#field += character;
      } else if (character === '"' && this.#state === "quote") {
        this.#field += character;
        this.#state = "quoted";
      } else if (character === '"' && this.#state === "start") this.#state = "quoted";
      else if (character === this.#delimiter) this.#endField();
      else if (character === "\r" || character === "\n") return character === "\n" && previous === "\r" ? null : this.end();
      else {
        this.#field += character;
        this.#state = "plain";
      }
      if (this.#field.length > MOST_CHARACTERS) throw new Error(phrase`a quote is never closed`);
      return null;
    }

    // Return the row so far; null for an empty line.
    end() {
      if (!this.#row.length && this.#state === "start") return null;
      this.#endField();
      const row = this.#row;
      this.#row = [];
      return row;
    }

    #endField() {
      this.#row.push(this.#field);
      this.#field = "";
      this.#state = "start";
    }
  }

  async function* delimited(pieces, delimiterOf) {
    let cutter = null;
    let row = null;
    for await (const piece of pieces) {
      cutter ??= new Cutter(delimiterOf(piece));
      for (const character of piece) {
        if ((row = cutter.take(character)) !== null) yield row;
      }
    }
    if ((row = cutter?.end() ?? null) !== null) yield row;
  }

  async function* lines(pieces) {
    let rest = "";
    for await (const piece of pieces) {
      const parts = (rest + piece).split(/\r?\n/);
      rest = parts.pop();
      yield* parts;
      if (rest.length > MOST_CHARACTERS) throw new Error(phrase`a line is too long`);
    }
    if (rest) yield rest;
  }

  async function* objects(pieces) {
    let number = 0;
    for await (const text of lines(pieces)) {
      number += 1;
      if (!text.trim()) continue;
      let value;
      try {
        value = JSON.parse(text);
      } catch {
        throw new Error(phrase`line ${number} is not JSON`);
      }
      yield record(value);
    }
  }

  function record(value) {
    const named = value !== null && typeof value === "object" && !Array.isArray(value);
    return new Map(named ? Object.entries(value) : [["text", value]]);
  }

  // A document is an array of records, or an object with one under "data"; anything else may be JSON lines.
  async function* records(pieces) {
    let text = "";
    for await (const piece of pieces) text += piece;
    let value;
    try {
      value = JSON.parse(text);
    } catch {
      yield* objects([text]);
      return;
    }
    const rows = Array.isArray(value?.data) ? value.data : value;
    yield* (Array.isArray(rows) ? rows : [rows]).map(record);
  }

  // Yield the rows of a file as maps from column names to cells. An object would sort numeric names first.
  async function* rows(pieces, name, header) {
    if (/\.(jsonl|ndjson)(\.gz)?$/i.test(name)) yield* objects(pieces);
    else if (/\.json(\.gz)?$/i.test(name)) yield* records(pieces);
    else if (/\.(csv|tsv)(\.gz)?$/i.test(name)) {
      let names = null;
      const nameOf = (number) => names[number] ?? `column ${number + 1}`;
      const delimiter = /\.tsv(\.gz)?$/i.test(name) ? () => "\t" : header ? delimiterOf : () => ",";
      for await (const cells of delimited(pieces, delimiter)) {
        if (names === null) {
          names = header ? unique(cells) : cells.map((_, number) => `column ${number + 1}`);
          if (header) continue;
        }
        const count = Math.max(cells.length, names.length);
        yield new Map(Array.from({ length: count }, (_, number) => [nameOf(number), cells[number] ?? ""]));
      }
    } else for await (const text of lines(pieces)) yield new Map([["text", text]]);
  }

  function unique(names) {
    return names.map((name, number) => (name.trim() && names.indexOf(name) === number ? name.trim() : `column ${number + 1}`));
  }

  // Yield the text of a file in parts. `tell` is called with the number of bytes read.
  async function* textOf(file, tell) {
    let bytes = 0;
    const counting = new TransformStream({
      transform(chunk, controller) {
        bytes += chunk.length;
        tell(bytes);
        controller.enqueue(chunk);
      },
    });
    let stream = file.stream().pipeThrough(counting);
    if (file.name.toLowerCase().endsWith(".gz")) stream = stream.pipeThrough(new DecompressionStream("gzip"));
    const reader = stream.pipeThrough(new TextDecoderStream("utf-8", { fatal: true })).getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        yield value;
      }
    } finally {
      await reader.cancel().catch(() => {});
    }
  }

  return { cell, line, rows, textOf, hasHeader: (name) => /\.(csv|tsv)(\.gz)?$/i.test(name) };
})();
