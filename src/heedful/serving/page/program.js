"use strict";

// The shell and Python code for the same request.

const program = (() => {
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

  // A JSON value as a Python literal.
  function python(value, indent) {
    if (value === true || value === false) return value ? "True" : "False";
    if (value === null) return "None";
    if (Array.isArray(value)) return `[${value.map((one) => python(one, indent)).join(", ")}]`;
    if (typeof value !== "object") return JSON.stringify(value);
    const inner = `${indent}    `;
    const pairs = Object.entries(value).map(([name, one]) => `${inner}${JSON.stringify(name)}: ${python(one, inner)},\n`);
    return `{\n${pairs.join("")}${indent}}`;
  }

  function curl(url, question) {
    const key = client.hasKey() ? ` \\\n  -H "Authorization: Bearer $HEEDFUL_API_KEY"` : "";
    return `curl ${quoted(url)} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d ${quoted(JSON.stringify(question))}`;
  }

  function request(url, question) {
    const key = client.hasKey();
    return [
      ...(key ? ["import os", ""] : []),
      "import requests",
      "",
      "reply = requests.post(",
      `    ${JSON.stringify(url)},`,
      ...(key ? [`    headers={"Authorization": f"Bearer {os.environ['HEEDFUL_API_KEY']}"},`] : []),
      `    json=${python(question, "    ")},`,
      ")",
      "reply.raise_for_status()",
      'print(reply.json()["answers"])',
    ].join("\n");
  }

  async function copy(button, text) {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = phrase`Copied`;
    } catch {
      button.textContent = phrase`Select the lines to copy them`; // browsers allow copying only on secure addresses
    }
    setTimeout(() => (button.textContent = phrase`Copy`), 2000);
  }

  function block(title, id, text) {
    const button = element("button", { type: "button", class: "quiet", "aria-label": phrase`Copy the lines for ${title}`, click: () => copy(button, text) }, phrase`Copy`);
    return element("div", {}, element("div", { class: "controls" }, element("h3", {}, title), button), element("pre", { id, class: "code", tabindex: "0" }, text));
  }

  // Show the code for a request to a run.
  function show(run, question) {
    const url = `${client.address}/${client.pathOf(run, "predict")}`;
    byId("lines").replaceChildren(
      block(phrase`the shell`, "curl", curl(url, question)),
      block("Python", "python", request(url, question)),
    );
  }

  return { show };
})();
