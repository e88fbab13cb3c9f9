"use strict";

// Sends requests to the server, and turns errors into sentences that say what to do.

// An error response of the server. `status` is 0 if the server could not be reached.
class Refusal extends Error {
  constructor(status, message, retry) {
    super(message);
    this.status = status;
    this.retry = retry; // seconds until the next try, or null
  }
}

const client = (() => {
  const { root } = heedful.data("server");
  let key = null; // only in memory

  const pathOf = (run, action) => `api/runs/${encodeURIComponent(run)}/${action}`;

  async function send(path, body, { accept = "application/json", signal = null } = {}) {
    const headers = { accept };
    if (body !== null) headers["content-type"] = "application/json";
    if (key !== null) headers.authorization = `Bearer ${key}`;
    let reply;
    try {
      reply = await fetch(`${root}/${path}`, {
        method: body === null ? "GET" : "POST",
        headers,
        body: body === null ? null : JSON.stringify(body),
        signal,
      });
      if (reply.ok) return accept === "application/json" ? await reply.json() : await reply.text();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal(0, phrase`The server cannot be reached. Check whether it is still running, then try again.`, null);
    }
    throw await refusalOf(reply);
  }

  async function refusalOf(reply) {
    let message = phrase`it answered with status ${reply.status}`;
    try {
      message = (await reply.json()).error.message;
    } catch {
      // A proxy may send its own errors.
    }
    const retry = Number.parseInt(reply.headers.get("retry-after"), 10);
    return new Refusal(reply.status, message, Number.isNaN(retry) ? null : retry);
  }

  const again = (refusal) => phrase`Try again in ${refusal.retry ?? 1} s.`;

  const SENTENCES = {
    401: () => (key === null ? phrase`Enter the key that the server was started with.` : phrase`That is not the key of this server.`),
    404: (refusal) => phrase`This run no longer exists: ${refusal.message}. Reload this page.`,
    408: () => phrase`The text did not arrive in time. Send less at once, or try again.`,
    413: (refusal) => phrase`This exceeds a limit of the server: ${refusal.message}. Shorten the text, or send it in parts.`,
    421: (refusal) => `${capital(refusal.message)}.`,
    422: (refusal) => phrase`This cannot be answered: ${refusal.message}.`,
    429: (refusal) => phrase`The server is busy. ${again(refusal)}`,
    500: () => phrase`The server failed to answer this. The reason is in its log.`,
    502: () => phrase`The server behind the proxy cannot be reached. Check whether it is still running, then try again.`,
    503: (refusal) => phrase`${capital(refusal.message)}. ${again(refusal)}`,
  };

  // One sentence, or two, for a user.
  function sentenceOf(error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.status === 0) return error.message;
    const sentence = SENTENCES[error.status] ?? ((refusal) => phrase`The server refused this: ${refusal.message}.`);
    return sentence(error);
  }

  return {
    address: `${location.origin}${root}`,
    pathOf,
    sentenceOf,
    hasKey: () => key !== null,
    useKey: (text) => {
      key = text;
    },
    runs: () => send("api/runs", null),
    predict: (run, question, signal) => send(pathOf(run, "predict"), question, { signal }),
    explain: (run, subject, signal) => send(pathOf(run, "explain"), subject, { signal }),
    explainHtml: (run, subject, signal) => send(pathOf(run, "explain"), subject, { accept: "text/html", signal }),
  };
})();
