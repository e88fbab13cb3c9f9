"""The page in a browser that asks for Chinese."""

import re

import pytest
from tests.browser import Browser, assert_accessible
from tests.serving.browsing import all_of, ask, by_id, explain, text_of, wait
from tests.serving.conftest import Live

ASKED = {
    "classify": ("the blue horse sleeps",),
    "tag": ("Dan Miller lives near New Lima",),
    "pretrain": ("the [MASK] is red. it is very [MASK].",),
    "translate": ("Das hund ist rot!",),
}
SAME = {
    "token",
    "MASK",
    "JSON",
    "CSV",
    "TSV",
    "lines",
    "UTF",
    "gz",
    "Python",
    "API",
    "heedful",
    "Ctrl",
    "Enter",
}
"""Words of the page that are the same in Chinese."""


DATA = (
    *("script", "noscript", "template", "pre", "code", "textarea", "select", "tbody", "mark"),
    *(".running", ".headline", ".others", "strong", "#about", "#spoken", "#why-spoken", "[hidden]"),
)
"""What holds texts, labels and code, or is not seen."""


def words_of(browser: Browser) -> set[str]:
    """Return the Latin words of the page, except its data."""
    said = browser.driver.execute_script(
        "const copy = document.body.cloneNode(true);"
        "copy.querySelectorAll(arguments[0]).forEach(one => one.remove()); return copy.textContent",
        ", ".join(DATA),
    )
    return set(re.findall(r"[A-Za-z]{2,}", said))


@pytest.mark.parametrize("run", ASKED)
def test_the_page_speaks_chinese(page: Browser, live: Live, run: str) -> None:
    page.open("about:blank")
    page.open(f"{live.url}/#{run}", language="zh-CN")
    wait(page, lambda: all_of(page, "#input-0"))
    assert page.driver.execute_script("return document.documentElement.lang") == "zh-CN"
    assert by_id(page, "answer-heading").text == "回答"
    ask(page, *ASKED[run])
    explain(page)
    assert text_of(page, "why-problem") == ""
    assert "解释对象：" in text_of(page, "why-result")
    assert re.search("[\u4e00-\u9fff]", text_of(page, "about")), (
        "what the run does is said in Chinese"
    )
    assert words_of(page) <= {*SAME, run}, sorted(words_of(page) - SAME)
    assert_accessible(page)
    assert page.complaints() == []
