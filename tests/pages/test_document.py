"""A document is self-contained, loads nothing else, and shows any text unchanged."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.expected_conditions import title_is
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import PHONE, SECONDS, Browser, assert_accessible

from heedful.pages.document import document, fill

HOSTILE = (
    """</script></style><!--<img src="https://example.org/x" onerror='x()'>&amp;\u2028\ud800"""
)

BODY = Markup(
    """<p>One <a href="#main">link</a>.</p>
    <div class="controls"><label>Head <select><option>1</option></select></label>
    <label><input type="checkbox"> Hide special tokens</label>
    <button type="button">Do</button></div>
    <div class="scroll" tabindex="0"><table><caption>Scores</caption>
    <thead><tr><th>label</th><th class="number">F1</th></tr></thead>
    <tbody><tr><th>place</th><td class="number">0.5</td></tr></tbody></table></div>
    <dl class="facts"><dt>Runs</dt><dd>3</dd></dl>
    <p class="note">Mind this.</p><p class="note warning">Mind that.</p>
    <div class="card"><p class="muted">Small print</p></div>"""
)


class Elements(HTMLParser):
    """The elements of a document, with the text of scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_hostile_text_stays_text() -> None:
    html = document(title=HOSTILE, body=BODY, data={"words": [HOSTILE]})
    elements = Elements(html)
    assert [tag for tag, _ in elements.elements if tag in ("img", "script", "style")] == [
        *("style", "script", "script")
    ]
    (words,) = [json.loads(text) for text in elements.texts if text.startswith("[")]
    assert words == [HOSTILE]
    assert HOSTILE.replace("\ud800", "\ufffd") in elements.texts
    assert "\u2028" not in re.findall(r"<script.*?</script>", html, re.DOTALL)[0]


def test_a_value_that_the_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="title"):
        fill("heedful.pages", "document.html", {"policy": "", "styles": []})


def test_numbers_have_to_be_finite() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        document(title="A", body=BODY, data={"loss": float("nan")})


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_shared_look_is_accessible(chromium: Browser, dark: bool) -> None:
    for size in ((1280, 900), PHONE):
        chromium.open(document(title="A page", body=BODY), size=size, dark=dark)
        assert_accessible(chromium)
        assert chromium.complaints() == []


def test_the_accessibility_check_notices(chromium: Browser) -> None:
    chromium.open(document(title="A page", body=Markup("<button></button>")))
    assert [text.partition(":")[0] for text in chromium.violations()] == ["button-name"]


def test_the_accessibility_check_notices_faint_text_on_mixed_colours(chromium: Browser) -> None:
    body = Markup("<p class='mixed'>Text</p>")
    mixed = ".mixed { background: color-mix(in srgb, var(--ink) %s%%, transparent); }"
    chromium.open(document(title="A page", body=body, styles=[mixed % 60]))
    (violation,) = chromium.violations()
    assert violation.startswith("mixed-contrast: ")
    chromium.open(document(title="A page", body=body, styles=[mixed % 20]))
    assert chromium.violations() == []


def test_given_scripts_and_styles_work(chromium: Browser) -> None:
    script = "document.title = heedful.data('colours').at(-1) + heedful.colour('test');"
    styles = [":root { --test: rgb(1, 2, 3); }"]
    data = {"colours": ["red", "<blue>"]}
    chromium.open(document(title="A", body=BODY, data=data, scripts=[script], styles=styles))
    assert chromium.driver.title == "<blue>rgb(1, 2, 3)"
    assert chromium.complaints() == []


@pytest.mark.parametrize(
    "body",
    [
        "<script>document.title = 'reached'</script>",
        "<img src=x: onerror=\"document.title = 'reached'\">",
        "<img src='http://127.0.0.1:9/picture.png'>",
        "<link rel=stylesheet href='http://127.0.0.1:9/style.css'>",
        "<iframe src='http://127.0.0.1:9/'></iframe>",
        "<p style='color: red'>Red</p>",
        "<script src='http://127.0.0.1:9/script.js'></script>",
    ],
)
def test_the_policy_refuses_everything_else(chromium: Browser, body: str) -> None:
    chromium.open(document(title="A", body=Markup(body)))
    assert chromium.driver.title == "A"
    complaints = chromium.wait_for_complaints()
    assert all("Content Security Policy" in text for text in complaints)


def test_scripts_reach_the_server_only_where_they_may(chromium: Browser) -> None:
    script = "fetch('/predict').catch(() => {});"
    chromium.open(document(title="A", body=BODY, scripts=[script]))
    assert "connect-src 'none'" in chromium.wait_for_complaints()[0]
    chromium.open(document(title="A", body=BODY, scripts=[script], connect=True))
    # The address of a file has no server, and it is that which the browser complains of.
    complaints = chromium.wait_for_complaints()
    assert not any("Content Security Policy" in text for text in complaints)


def test_the_switch_changes_the_colours_and_is_remembered(chromium: Browser) -> None:
    page = document(
        title="A",
        body=BODY,
        scripts=["heedful.onTheme(() => { document.title = heedful.colour('paper'); });"],
    )
    chromium.open(page, dark=True)
    button = chromium.driver.find_element("id", "theme")
    assert button.text == "Light colours"
    button.click()
    assert (button.text, chromium.driver.title) == ("Dark colours", "rgb(252, 252, 250)")

    def is_remembered(driver: WebDriver) -> bool:
        driver.refresh()
        return driver.find_element("id", "theme").text == "Dark colours"

    # The page may open anew in another process, which what was stored reaches a moment later.
    WebDriverWait(chromium.driver, SECONDS, 0.1).until(is_remembered)


def test_paper_is_light(chromium: Browser) -> None:
    script = "heedful.onTheme(() => { document.title = heedful.colour('paper'); });"
    chromium.open(document(title="A", body=BODY, scripts=[script]), dark=True)
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    printed = {"media": "print", "features": [dark]}
    chromium.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", printed)
    WebDriverWait(chromium.driver, 20, 0.02).until(title_is("rgb(252, 252, 250)"))
    assert not chromium.driver.find_element("id", "theme").is_displayed()


def test_a_screenshot_shows_the_whole_page(chromium: Browser, tmp_path: Path) -> None:
    chromium.open(document(title="A", body=BODY))
    picture = chromium.screenshot(tmp_path / "page.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20], "big") == 1280
