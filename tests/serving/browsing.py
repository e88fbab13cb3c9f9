"""Actions of tests on a server's page."""

from collections.abc import Callable
from typing import Any

from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import DESKTOP, SECONDS, Browser


def wait(browser: Browser, condition: Callable[[], Any]) -> Any:
    return WebDriverWait(browser.driver, SECONDS, poll_frequency=0.02).until(lambda _: condition())


def by_id(browser: Browser, name: str) -> WebElement:
    return browser.driver.find_element("id", name)


def text_of(browser: Browser, name: str) -> str:
    """Return the text of an element, visible or not."""
    text: str = by_id(browser, name).get_property("textContent")
    return text


def all_of(browser: Browser, selector: str) -> list[WebElement]:
    return browser.driver.find_elements("css selector", selector)


def texts_of(browser: Browser, selector: str) -> list[str]:
    return [one.get_property("textContent") for one in all_of(browser, selector)]


def open_run(
    browser: Browser,
    url: str,
    run: str,
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
) -> None:
    """Reload the page, with a run chosen."""
    browser.open("about:blank", size=size, dark=dark)  # a change of the fragment loads nothing
    browser.open(f"{url}/#{run}", size=size, dark=dark)
    wait(browser, lambda: all_of(browser, "#input-0"))


def type_into(browser: Browser, number: int, text: str) -> None:
    """Put text into a field; the driver cannot type characters beyond the first plane."""
    browser.driver.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))",
        by_id(browser, f"input-{number}"),
        text,
    )


def submit(browser: Browser) -> None:
    all_of(browser, "#ask .primary")[0].click()


def ask(browser: Browser, *texts: str) -> str:
    """Type texts, submit them, and return what a screen reader reads out."""
    for number, text in enumerate(texts):
        type_into(browser, number, text)
    submit(browser)
    return str(wait(browser, lambda: text_of(browser, "spoken")))


def explain(browser: Browser) -> None:
    by_id(browser, "why-button").click()
    wait(browser, lambda: text_of(browser, "why-result") or text_of(browser, "why-problem"))


def is_wide(browser: Browser) -> bool:
    """Return whether the page scrolls horizontally."""
    wide: bool = browser.driver.execute_script(
        "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wide


def answer_to(browser: Browser, body: str, status: int = 200) -> None:
    """Replace the server's answer to the page by a JavaScript expression of a text."""
    browser.driver.execute_script(
        f"window.fetch = async () => new Response({body}, {{status: {status}, "
        "headers: {'content-type': 'application/json', 'retry-after': '7'}})"
    )
