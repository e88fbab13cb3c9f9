"use strict";

// The weights in the file, and values computed from them.
//
// A map has `rows` and `columns` (sides with tokens), and `bytes` by "layer.head": one byte per weight,
// 255 times its square root, row by row. The roots may be rounded to fewer steps.

const WEIGHT = Float32Array.from({ length: 256 }, (_, byte) => (byte / 255) ** 2);

async function inflated(code, steps) {
  const packed = Uint8Array.from(atob(code), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return steps === 255 ? bytes : bytes.map((byte) => Math.round((byte * 255) / steps));
}

async function readMaps({ sides, maps, steps }) {
  return Promise.all(
    maps.map(async (map) => {
      const names = Object.keys(map.codes);
      const bytes = await Promise.all(names.map((name) => inflated(map.codes[name], steps)));
      return {
        ...map,
        same: map.rows === map.columns,
        rows: sides[map.rows],
        columns: sides[map.columns],
        bytes: Object.fromEntries(names.map((name, at) => [name, bytes[at]])),
      };
    }),
  ).then((all) => all.filter((map) => Object.keys(map.bytes).length));
}

const isAlignment = (map) => ["alignment", "cross"].includes(map.kind);
const numbersUpTo = (count) => Array.from({ length: count }, (_, number) => number);
const layersOf = (map) =>
  numbersUpTo(map.layers).filter((layer) => headsOf(map, layer).length);
const headsOf = (map, layer) =>
  numbersUpTo(map.heads).filter((head) => `${layer}.${head}` in map.bytes);

// The visible part of a map: its tokens on each side, and its heads.
function pictureOf(map, choice) {
  const visible = ({ tokens }, text) =>
    numbersUpTo(tokens.length).filter(
      (at) => (choice.special || !tokens[at].special) && (text === null || tokens[at].text === text),
    );
  const heads = choice.only === null ? choice.heads : [choice.only];
  return {
    map,
    layer: choice.layer,
    heads,
    bytes: heads.map((head) => map.bytes[`${choice.layer}.${head}`]),
    width: map.columns.tokens.length,
    rows: visible(map.rows, choice.rows),
    columns: visible(map.columns, choice.columns),
  };
}

// The mean weight over the visible heads.
function meanWeight({ bytes, width }, row, column) {
  let sum = 0;
  for (const head of bytes) sum += WEIGHT[head[row * width + column]];
  return bytes.length ? sum / bytes.length : 0;
}

// What a row token attends to, or what attends to a column token, strongest first.
function ranked(picture, { side, at }) {
  const others = side === "rows" ? picture.columns : picture.rows;
  const weightOf = (other) =>
    side === "rows" ? meanWeight(picture, at, other) : meanWeight(picture, other, at);
  return others
    .map((other) => ({ at: other, weight: weightOf(other) }))
    .sort((one, other) => other.weight - one.weight);
}

// The head that contributes most to a weight.
function strongestHead({ bytes, heads, width }, row, column) {
  const weights = bytes.map((head) => head[row * width + column]);
  return heads[weights.indexOf(Math.max(...weights))];
}

// The strongest visible weights as lines, at most `most`. A counting sort finds the smallest byte whose
// weights are all drawn. Many weights may equal the next smaller byte: they are drawn in part, evenly.
function strongestLines({ bytes, rows, columns, width }, most, least) {
  const counts = new Uint32Array(256);
  for (const head of bytes)
    for (const row of rows) for (const column of columns) counts[head[row * width + column]]++;
  let from = 256;
  let total = 0;
  while (from > least && total + counts[from - 1] <= most) total += counts[--from];
  const [room, equals] = from > least ? [most - total, counts[from - 1]] : [0, 1];
  const share = (passed) => Math.floor((passed * room) / equals);
  let passed = 0;
  const lines = [];
  bytes.forEach((head, number) => {
    rows.forEach((row, left) => {
      columns.forEach((column, right) => {
        const byte = head[row * width + column];
        const isDrawn = byte >= from || (byte === from - 1 && share(passed) < share(++passed));
        if (isDrawn) lines.push({ head: number, left, right, byte });
      });
    });
  });
  return lines;
}

// Describe in a few words where a head attends on average: the first kind with a third of all weight.
function habitOf(map, layer, head) {
  const bytes = map.bytes[`${layer}.${head}`];
  const { tokens } = map.columns;
  const width = tokens.length;
  const rows = map.rows.tokens.length;
  const shares = new Map();
  let bits = 0;
  const add = (name, weight) => shares.set(name, (shares.get(name) ?? 0) + weight / rows);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < width; column++) {
      const weight = WEIGHT[bytes[row * width + column]];
      if (!weight) continue;
      bits -= (weight * Math.log(weight)) / rows;
      if (map.same && column === row) add(phrase`the token itself`, weight);
      else if (map.same && column === row - 1) add(phrase`the token before`, weight);
      else if (map.same && column === row + 1) add(phrase`the token after`, weight);
      if (tokens[column].special) add(tokens[column].shown, weight);
    }
  }
  const [name, share] = [...shares].sort((one, other) => other[1] - one[1])[0] ?? ["", 0];
  return share >= 1 / 3
    ? phrase`mostly ${name} (${share.toFixed(2)} of the weight)`
    : phrase`spread over about ${Math.max(1, Math.round(Math.exp(bits)))} tokens`;
}
