"use strict";

// What scripts of all pages share: the data of the page, its colours, and the switch between light and dark.
const heedful = (() => {
  const root = document.documentElement;
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];

  // The storage is refused where a page has no origin of its own, as in a notebook.
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
      // It holds until the page is left.
    }
  }

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

  const button = document.getElementById("theme");

  function changed() {
    button.textContent = isDark() ? "Light colours" : "Dark colours";
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

  // The colour that a variable of the stylesheet has now, as a canvas takes it.
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
