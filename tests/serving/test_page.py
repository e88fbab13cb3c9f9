"""The page in a real browser: what it shows is what the runs answer."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import DESKTOP, Browser, assert_accessible
from tests.serving.conftest import Live

SECONDS = 20

EMOJI = "Dan 👩‍🚀 Mille\u0301r 🇩🇪 lives near New Lima 🎉"
ASKED: dict[str, tuple[str, ...]] = {
    "classify": ("the blue horse sleeps",),
    "many": ("the red cat and the blue soup",),
    "pair": ("the cat is red", "no, it is not here"),
    "regress": ("the bird is very very red",),
    "tag": (EMOJI,),
    "answer": ("where is it?", "🎉 Carla eats cheese in Oslo. the sky is blue. it is red."),
    "choose": ("what sleeps?", "the soup\nthe bird\nthe tower"),
    "embed": ("the red cat sleeps", "the soup is white\na cat, red"),
    "pretrain": ("the [MASK] is red. it is very [MASK].",),
    "masked": ("the [MASK] is red.",),
    "replies": ("cat, red",),
    "translate": ("Das hund ist rot!",),
}
"""A run of each kind, and what is typed into its fields."""


def wait(browser: Browser, condition: Callable[[], Any]) -> Any:
    return WebDriverWait(browser.driver, SECONDS, poll_frequency=0.02).until(lambda _: condition())


def by_id(browser: Browser, name: str) -> WebElement:
    return browser.driver.find_element("id", name)


def text_of(browser: Browser, name: str) -> str:
    """Return the text of an element, seen or not."""
    text: str = by_id(browser, name).get_property("textContent")
    return text


def all_of(browser: Browser, selector: str) -> list[WebElement]:
    return browser.driver.find_elements("css selector", selector)


def texts_of(browser: Browser, selector: str) -> list[str]:
    return [one.get_property("textContent") for one in all_of(browser, selector)]


def open_run(
    browser: Browser,
    live: Live,
    run: str,
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
) -> None:
    """Open the page anew, with a run chosen."""
    browser.open("about:blank", size=size, dark=dark)  # a change of the fragment loads nothing
    browser.open(f"{live.url}/#{run}", size=size, dark=dark)
    wait(browser, lambda: all_of(browser, "#input-0"))


def type_into(browser: Browser, number: int, text: str) -> None:
    """Put text into a field; the driver itself cannot type what is beyond the first plane."""
    browser.driver.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))",
        by_id(browser, f"input-{number}"),
        text,
    )


def submit(browser: Browser) -> None:
    all_of(browser, "#ask .primary")[0].click()


def ask(browser: Browser, *texts: str) -> str:
    """Type texts, submit them, and return what a screen reader is told."""
    for number, text in enumerate(texts):
        type_into(browser, number, text)
    submit(browser)
    return str(wait(browser, lambda: text_of(browser, "spoken")))


def explain(browser: Browser) -> None:
    by_id(browser, "why-button").click()
    wait(browser, lambda: text_of(browser, "why-result") or text_of(browser, "why-problem"))


def is_wide(browser: Browser) -> bool:
    """Tell whether the page has to be scrolled sideways."""
    wide: bool = browser.driver.execute_script(
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wide


@pytest.fixture
def page(chromium: Browser, live: Live) -> Iterator[Browser]:
    """Give a browser whose pages complain of nothing, and load nothing from elsewhere."""
    yield chromium
    driver = chromium.driver
    loaded = driver.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert [name for name in loaded if not name.startswith((live.url, "data:", "blob:"))] == []
    assert chromium.complaints() == []


def expected(live: Live, run: str) -> str:
    """Return what the run answers in Python, as a screen reader is told it."""
    first, *rest = ASKED[run]
    model = live.load(run)
    match run:
        case "classify":
            answer = model(first)
            return f"{answer.label}, {100 * answer.score:.1f} %"
        case "many":
            answer = model(first)
            return "; ".join(f"{one}, {100 * answer.scores[one]:.1f} %" for one in answer.label)
        case "pair":
            answer = model((first, *rest))
            return f"{answer.label}, {100 * answer.score:.1f} %"
        case "regress":
            return f"{model(first).value:.4g}"
        case "tag":
            return "; ".join(f"{one.text}, {one.label}" for one in model(first).entities)
        case "answer":
            return str(model((first, *rest)).answer)
        case "choose":
            answer = model((first, *rest[0].split("\n")))
            return f"{answer.text}, {100 * answer.score:.1f} %"
        case "embed":
            others = rest[0].split("\n")
            return "Nearest: " + max(others, key=lambda other: model((first, other)).similarity)
        case _:
            return str(model(first).text)


@pytest.mark.parametrize("run", ASKED)
def test_every_task_is_answered_explained_and_accessible(
    page: Browser, live: Live, run: str
) -> None:
    dark = len(run) % 2 == 0
    open_run(page, live, run, dark=dark)
    assert ask(page, *ASKED[run]) == expected(live, run)
    assert text_of(page, "problem") == ""
    if run == "embed":
        assert not by_id(page, "why").is_displayed()
    else:
        explain(page)
        assert "Explained: " in text_of(page, "why-result")
        assert "Checked: " in text_of(page, "why-result")
        shaded = texts_of(page, "#why-result .running")
        texts = [part for text in ASKED[run] for part in text.split("\n")]
        assert set(shaded) <= set(texts)
        assert all_of(page, "#why-result .running .shaded")
    assert_accessible(page)
    assert not is_wide(page)
