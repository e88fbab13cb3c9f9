"use strict";

// The texts of a page in the reader's language: phrase`All ${count} tokens were read.`, and sentence(english) for
// sentences from the Python code. A document may have a Chinese body next to the English one.
const { phrase, sentence } = (() => {
  const template = document.getElementById("chinese");
  const isChinese = template !== null && /^zh\b/i.test(navigator.language);
  const tableOf = (id) => (isChinese ? JSON.parse(document.getElementById(id)?.textContent ?? "{}") : {});
  const phrases = tableOf("phrases");
  const sentences = Object.entries(tableOf("sentences")).map(([english, said]) => {
    const plain = english.replaceAll(/[.*+?^$()|[\]\\]/g, "\\$&");
    return [new RegExp(`^${plain.replaceAll("{}", "(.+?)")}$`, "s"), said];
  });
  const filled = (said, values) => said.replaceAll(/\{(\d)\}/g, (_, number) => values[number]);

  function phrase(parts, ...values) {
    const said = phrases[parts.join("{}")];
    return said === undefined ? String.raw({ raw: parts }, ...values) : filled(said, values);
  }

  function sentence(english) {
    for (const [pattern, said] of sentences) {
      const match = pattern.exec(english);
      if (match) return filled(said, match.slice(1));
    }
    return english;
  }

  if (isChinese) {
    document.documentElement.lang = "zh-CN";
    const main = document.getElementById("main");
    for (const empty of template.content.querySelectorAll("[data-part]")) {
      empty.replaceWith(main.querySelector(`[data-part="${empty.dataset.part}"]`));
    }
    main.replaceChildren(template.content);
    document.querySelector("h1").textContent = document.title = template.dataset.title;
    document.querySelector(".skip").textContent = phrase`Skip to the content`;
  }
  return { phrase, sentence };
})();

// Shared by the scripts of all pages: the page's data, its colours, and the switch between light and dark.
const heedful = (() => {
  const root = document.documentElement;
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];

  // A page without its own origin, as in a notebook, has no storage.
  function remembered() {
    try {
      return localStorage.getItem("heedful-theme");
    } catch {
      return null;
    }
  }

  function remember(theme) {
    try {
      localStorage.setItem("heedful-theme", theme);
    } catch {
      // The choice lasts until the page is closed.
    }
  }

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

  const button = document.getElementById("theme");

  function changed() {
    button.textContent = isDark() ? phrase`Light colours` : phrase`Dark colours`;
    for (const listener of listeners) listener();
  }

  if (["light", "dark"].includes(remembered())) root.dataset.theme = remembered();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    changed();
  });
  systemDark.addEventListener("change", changed);
  matchMedia("print").addEventListener("change", changed); // paper is always light

  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  // The current value of a colour variable of the stylesheet, for a canvas.
  function colour(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }

  changed();
  return {
    data: (id) => JSON.parse(document.getElementById(id).textContent),
    colour,
    onTheme: (listener) => listeners.push(listener),
    still: matchMedia("(prefers-reduced-motion: reduce)").matches,
  };
})();
