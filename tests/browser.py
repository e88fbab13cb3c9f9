"""Pages in a real browser: headless Chromium with its own driver, which nothing is fetched for.

A test takes the fixture ``chromium`` of ``tests/conftest.py``, and is skipped where one is absent.
"""

import base64
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.ui import WebDriverWait

DESKTOP, PHONE = (1280, 900), (390, 844)
"""Sizes of a window, width by height in CSS pixels."""
SECONDS = 60
"""How long a busy machine may take to draw a page."""


# axe-core 4.4 does not know colours as `color-mix` gives them; a canvas lays one over another.
_FAINT = """
const pen = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
const light = (...colours) => {
  pen.clearRect(0, 0, 1, 1);
  for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
  const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => {
    part /= 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const found = [];
for (const node of document.body.querySelectorAll("*")) {
  const style = getComputedStyle(node);
  const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  if (!hasText || !style.backgroundColor.includes("color(") || !node.checkVisibility()) continue;
  const grounds = [];
  for (let at = node; at; at = at.parentElement) {
    grounds.unshift(getComputedStyle(at).backgroundColor);
  }
  const two = [light(...grounds), light(...grounds, style.color)].sort((one, other) => other - one);
  const ratio = (two[0] + 0.05) / (two[1] + 0.05);
  if (ratio < 4.5) found.push(`mixed-contrast: ${ratio.toFixed(2)}: ${node.outerHTML}`);
}
return found;
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Browser:
    """One window; ``driver`` is selenium's, for everything that has no method here."""

    driver: Chrome
    folder: Path

    def open(
        self,
        page: str,
        *,
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        reduced: bool = True,
        language: str = "en-US",
    ) -> None:
        """Open an address, or the HTML of a document, as a fresh visitor would.

        Args:
            page: begins with ``http`` if it is an address.
            size: of the window; one as narrow as a phone's is touched as one.
            dark: whether the visitor's system asks for dark colours.
            reduced: whether it asks for less motion.
            language: that the visitor's browser asks for first.
        """
        colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce" if reduced else ""}
        self._tell("Emulation.setEmulatedMedia", media="", features=[colours, motion])
        self._tell("Emulation.setUserAgentOverride", userAgent="", acceptLanguage=language)
        width, height = size
        phone = width < 600
        self._tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        if not page.startswith("http"):
            path = self.folder / "page.html"
            path.write_text(page, encoding="utf-8")
            page = path.as_uri()
        self.driver.execute_script("try { localStorage.clear() } catch {}")
        self.complaints()  # what an earlier page logged is not this one's
        self.driver.get(page)

    def wait(self, script: str) -> None:
        """Wait until a script returns something true, because pages continue to draw once open."""
        wait = WebDriverWait(self.driver, SECONDS, poll_frequency=0.02)
        wait.until(lambda driver: driver.execute_script(script))

    def complaints(self) -> list[str]:
        """Return what the page logged since the last call: errors, and refused loads."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def wait_for_complaints(self) -> list[str]:
        """Return them once there is one, because Chromium logs what was refused a moment later."""
        wait = WebDriverWait(self.driver, SECONDS, poll_frequency=0.02)
        return wait.until(lambda _: self.complaints())

    def violations(self) -> list[str]:
        """Return axe-core's violations in the current page, with the elements.

        Texts on mixed colours, which it does not judge, are held to the same contrast.
        """
        self.driver.execute_script(_axe())
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then("
            "result => done(result.violations), error => done([{id: String(error), nodes: []}]))"
        )
        return [
            f"{rule['id']}: {rule.get('help', '')}: "
            + "; ".join(f"{node['html']} ({node['failureSummary']})" for node in rule["nodes"])
            for rule in found
        ] + self.driver.execute_script(_FAINT)

    def screenshot(self, path: Path) -> Path:
        """Write the whole page, however long, as a PNG file."""
        # On a busy machine a page that is open may not be laid out yet, and has no width then.
        wait = WebDriverWait(self.driver, SECONDS, poll_frequency=0.02)
        width, height = wait.until(lambda _: self._size())
        picture = self._tell(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1},
        )
        path.write_bytes(base64.b64decode(picture["data"]))
        return path

    def _size(self) -> tuple[float, float] | None:
        """Return width and height of the whole page in CSS pixels, once it is laid out."""
        content = self._tell("Page.getLayoutMetrics")["cssContentSize"]
        return (content["width"], content["height"]) if content["width"] else None

    def _tell(self, command: str, **parameters: object) -> dict:
        return self.driver.execute_cdp_cmd(command, parameters)


def assert_accessible(browser: Browser) -> None:
    """Check that axe-core reports no violation."""
    violations = browser.violations()
    assert not violations, "\n".join(violations)


@contextmanager
def chromium_in(folder: Path) -> Iterator[Browser]:
    """Start Chromium with the driver of the same system, or skip the test."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs Chromium and chromedriver, from packages of the system")
    options = ChromeOptions()
    options.binary_location = program
    for flag in (
        *("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"),
        *("disable-background-networking", "disable-component-update", "no-first-run"),
        *("hide-scrollbars", "force-color-profile=srgb", f"user-data-dir={folder / 'profile'}"),
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # With the paths of both, selenium looks for neither in the network.
    chrome = Chrome(options=options, service=ChromeService(executable_path=driver))
    try:
        yield Browser(driver=chrome, folder=folder)
    finally:
        chrome.quit()


def _axe() -> str:
    return (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
