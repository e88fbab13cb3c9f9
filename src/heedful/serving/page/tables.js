"use strict";

// Files of items: CSV (RFC 4180), TSV, JSON lines, and text with one item a line, read piece by piece as it comes; and JSON
// documents, read as a whole.

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

  // The delimiter of a CSV file, by the rule of the commands: without a header, the first rows must have equally many cells.
  function delimiterOf(start, header) {
    const lines = start.replaceAll(/"[^"]*"/g, '""').split(/\r*\n/).filter(Boolean).slice(0, header ? 1 : 20);
    const splits = (mark) => {
      const widths = new Set(lines.map((text) => text.split(mark).length));
      return (header || lines.length > 1) && widths.size === 1 && !widths.has(1);
    };
    return [",", ";", "\t", ...(header ? ["|"] : [])].find(splits) ?? ",";
  }

  // Splits lines of CSV into the cells of one record.
  class Cutter {
    #delimiter;
    #field = "";
    #state = "start"; // of a field; then plain, quoted, or quote (after a quote within quotes)
    cells = [];
    ended = false;
    problem = null; // broken, or return (a carriage return outside quotes)

    constructor(delimiter) {
      this.#delimiter = delimiter;
    }

    take(line) {
      for (let at = 0; at < line.length && !this.ended; at += 1) this.#read(line[at], line, at);
      if (!this.ended && this.#state !== "quoted") this.#end();
    }

    #read(character, line, at) {
      if (this.#state === "quoted") {
        if (character === '"') this.#state = "quote";
        else this.#field += character;
      } else if (character === '"' && this.#state === "quote") {
        this.#field += character;
        this.#state = "quoted";
      } else if (character === '"' && this.#state === "start") this.#state = "quoted";
      else if (character === this.#delimiter) this.#endField();
      else if (character === "\r" || character === "\n") this.#end(/[^\r\n]/.test(line.slice(at)) ? "return" : null);
      else if (this.#state === "quote") this.#end("broken");
      else {
        this.#field += character;
        this.#state = "plain";
      }
    }

    #end(problem = null) {
      if (this.cells.length || this.#state !== "start") this.#endField(); // an empty line has no cell
      this.ended = true;
      this.problem = problem;
    }

    #endField() {
      this.cells.push(this.#field);
      this.#field = "";
      this.#state = "start";
    }
  }

  // Yield the rows of a table, read as the commands do (heedful/reading/delimited.py).
  async function* delimited(pieces, isTsv, header) {
    const iterator = pieces[Symbol.asyncIterator]();
    let start = "";
    for (let piece; !start.includes("\n") && !(piece = await iterator.next()).done; ) start += piece.value;
    const named = isTsv ? null : /^"?sep=([,;\t|])"?\r*(\n|$)/.exec(start);
    const delimiter = isTsv ? "\t" : (named?.[1] ?? delimiterOf(start, header));
    async function* all() {
      try {
        yield start.slice(named?.[0].length ?? 0);
        yield* iterator;
      } finally {
        await iterator.return();
      }
    }
    const records = new Records(lines(all()), delimiter, named ? 2 : 1);
    let first = null; // the first row, and its number
    let last = 0;
    for (;;) {
      const cells = await (isTsv ? records.plain() : records.quoted(first?.cells.length));
      if (cells === null) return;
      if (!cells.length) continue;
      first ??= { cells, number: records.number };
      if (cells.length !== first.cells.length) throw new Error(phrase`line ${records.number} does not have as many columns as line ${first.number}`);
      // In a table with one column, an empty line between rows is an empty text.
      if (cells.length === 1 && last) for (let empty = last + 1; empty < records.number; empty += 1) yield [""];
      yield cells;
      last = records.number + records.taken.length - 1;
    }
  }

  // The records of a table. Real files contain unclosed quotes, and a parser that trusts them swallows all rows up to the
  // next quote. So a record that does not parse, or has several lines and the wrong number of cells, is suspect. Its first
  // line is read again alone, with quotes as plain characters, and its other lines are put back.
  class Records {
    #lines;
    #delimiter;
    #waiting = []; // lines that were put back, the next one last
    #read = 0; // characters
    #reread = 0;
    taken = []; // the lines of the record
    number; // of its first line

    constructor(lines, delimiter, number) {
      this.#lines = lines;
      this.#delimiter = delimiter;
      this.number = number;
    }

    async #next() {
      const line = this.#waiting.pop() ?? (await this.#lines.next()).value;
      if (line !== undefined) this.taken.push(line);
      return line;
    }

    #begin() {
      this.number += this.taken.length;
      this.#read += this.taken.join("").length;
      this.taken = [];
    }

    // Return the cells of the next line, with quotes as plain characters; null at the end.
    async plain() {
      this.#begin();
      const line = await this.#next();
      if (line === undefined) return null;
      return bare(line) ? bare(line).split(this.#delimiter) : [];
    }

    // Return the cells of the next record, of which there should be `width`; null at the end.
    async quoted(width) {
      this.#begin();
      const cutter = new Cutter(this.#delimiter);
      for (let size = 0, line; !cutter.ended && size <= MOST_CHARACTERS; size += line.length) {
        line = await this.#next();
        if (line === undefined) break;
        cutter.take(line);
      }
      const { taken } = this;
      if (!taken.length) return null;
      if (cutter.problem === "return" && taken.length === 1) throw new Error(phrase`line ${this.number} has a carriage return outside quotes`);
      const isWhole = cutter.ended && !cutter.problem;
      if (isWhole && (taken.length === 1 || width === undefined || cutter.cells.length === width)) return cutter.cells;
      const cells = bare(taken[0]).split(this.#delimiter);
      if (width !== undefined && cells.length !== width) {
        if (isWhole) return cutter.cells;
        throw this.#unbalanced();
      }
      this.#putBack();
      return cells;
    }

    #putBack() {
      const rest = this.taken.splice(1);
      this.#reread += rest.join("").length;
      // Otherwise each line such as a","b would cause a scan to the end of the file.
      if (this.#reread > 2 * (MOST_CHARACTERS + this.#read)) throw this.#unbalanced();
      while (rest.length) this.#waiting.push(rest.pop());
    }

    #unbalanced() {
      return new Error(phrase`the quotes of line ${this.number} do not balance`);
    }
  }

  // Yield the lines of a text, with their ends.
  async function* lines(pieces) {
    let rest = "";
    for await (const piece of pieces) {
      const parts = (rest + piece).split("\n");
      rest = parts.pop();
      for (const part of parts) yield `${part}\n`;
      if (rest.length > MOST_CHARACTERS) throw new Error(phrase`a line is too long`);
    }
    if (rest) yield rest;
  }

  const bare = (line) => line.replace(/\r*\n?$/, "");

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
      for await (const cells of delimited(pieces, /\.tsv(\.gz)?$/i.test(name), header)) {
        if (names === null) {
          names = header ? unique(cells) : cells.map((_, number) => `column ${number + 1}`);
          if (header) continue;
        }
        yield new Map(names.map((one, number) => [one, cells[number]]));
      }
    } else for await (const text of lines(pieces)) yield new Map([["text", bare(text)]]);
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
