"""The views in a real browser: they draw, and work with pointer, keyboard and screen reader."""

from dataclasses import replace

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from tests.browser import DESKTOP, PHONE, Browser, assert_accessible
from tests.explanations.examples import SENTENCE, classified, translated

from heedful.explanations import html, weights
from heedful.explanations.explanation import Explanation
from heedful.explanations.html import render

VIEWS = ("heads", "model", "tokens", "matrix")


def opened(browser: Browser, explanation: Explanation, view: str, **how: object) -> Browser:
    """Open an explanation, go to a view, and wait until it has drawn."""
    browser.open(render(explanation), **how)
    browser.wait("return document.getElementById('waiting').hidden")
    find(browser, f"#tab-{view}").click()
    if view == "model":
        browser.wait("return document.getElementById('view').dataset.done")
    return browser


def find(browser: Browser, selector: str) -> WebElement:
    return browser.driver.find_element("css selector", selector)


def texts(browser: Browser, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((node) => node.textContent)"
    return browser.driver.execute_script(script, selector)


def press(browser: Browser, *keys: str) -> None:
    ActionChains(browser.driver).send_keys(*keys).perform()


def ink(browser: Browser, selector: str) -> int:
    """Return how many pixels of a canvas are not empty."""
    script = """
    const canvas = document.querySelector(arguments[0]);
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
    copy.drawImage(canvas, 0, 0);
    const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
    return data.filter((part, at) => at % 4 === 3 && part > 0).length;
    """
    return browser.driver.execute_script(script, selector)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_is_accessible_and_logs_nothing(chromium: Browser, view: str, dark: bool) -> None:
    for size, explanation in ((DESKTOP, classified("Who paid?", SENTENCE)), (PHONE, translated())):
        opened(chromium, explanation, view, size=size, dark=dark)
        if view in ("heads", "tokens"):
            chromium.driver.execute_script("document.querySelector('[role=option]').focus()")
        assert_accessible(chromium)
        assert chromium.complaints() == []
        # Nothing but what scrolls on its own is wider than the window.
        wide = "return document.documentElement.scrollWidth - innerWidth"
        assert chromium.driver.execute_script(wide) <= 0


def test_scores_are_accessible_without_any_attention(chromium: Browser) -> None:
    for dark in (False, True):
        chromium.open(render(replace(classified(), attention=())), dark=dark)
        assert_accessible(chromium)
        assert chromium.complaints() == []


def test_without_scripts_the_scores_are_there_and_it_says_what_is_missing(
    chromium: Browser,
) -> None:
    chromium.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.open(render(classified()))
        assert find(chromium, "#waiting").is_displayed()
        assert not find(chromium, "#attention").is_displayed()
        assert find(chromium, ".shaded.more-10, .shaded.less-10").is_displayed()
        assert not find(chromium, "#theme").is_displayed()
    finally:
        chromium.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_tab_key_goes_through_all_that_can_be_used_and_shows_where_it_is(
    chromium: Browser,
) -> None:
    opened(chromium, classified("Who paid?", SENTENCE, heads=2), "heads")
    at = """
    const node = document.activeElement;
    if (node === document.body) return null;
    const {id, name, dataset, ariaLabel, textContent} = node;
    const token = dataset.side && `token of ${dataset.side}`;
    const style = getComputedStyle(node);
    const seen = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth);
    return [id || name || token || ariaLabel || textContent, seen];
    """
    chromium.driver.execute_script("document.querySelector('.skip').focus()")
    # Focus that a script gives is not outlined: go on from it, and come back.
    back = ActionChains(chromium.driver).send_keys(Keys.TAB).key_down(Keys.SHIFT)
    back.send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    walked: list[str] = []
    while step := chromium.driver.execute_script(at):
        walked.append(step[0])
        assert step[1] >= 2, f"{step[0]} does not show that it has the focus"
        assert len(walked) < 40
        press(chromium, Keys.TAB)
    assert walked[:2] == ["Skip to the content", "theme"]
    assert sum(name.startswith("Scores of the words") for name in walked) == 2
    assert walked[walked.index("tab-heads") :][:11] == [
        *("tab-heads", "layer", "rows", "columns", "special", "All heads", "Head 1", "Head 2"),
        *("token of rows", "token of columns", "numbers-box"),
    ]


def test_tabs_are_walked_by_arrows(chromium: Browser) -> None:
    opened(chromium, classified(), "heads")
    find(chromium, "#tab-heads").send_keys(Keys.ARROW_RIGHT)
    assert chromium.driver.switch_to.active_element.get_attribute("id") == "tab-model"
    assert find(chromium, "#tab-model").get_attribute("aria-selected") == "true"
    assert find(chromium, "#view .thumbnails").is_displayed()
    press(chromium, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert chromium.driver.switch_to.active_element.get_attribute("id") == "tab-matrix"


def test_tokens_are_chosen_by_keyboard_and_read_out(chromium: Browser) -> None:
    explanation = classified()
    opened(chromium, explanation, "heads")
    assert texts(chromium, "#numbers-caption") == [
        "What each token attends to most: layer 4, mean of 6 heads"
    ]
    chromium.driver.execute_script("document.querySelector('.rows [tabindex=\"0\"]').focus()")
    press(chromium, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert texts(chromium, "#numbers-caption") == ["“card” attends to: layer 4, mean of 6 heads"]
    mean = explanation.attention[0].weights[3].mean(0)[2]
    first = mean.argsort()[::-1][0]
    row = texts(chromium, "#numbers tbody tr:first-child td")
    assert row[:2] == [explanation.sides[0].display_tokens()[first], str(first + 1)]
    assert float(row[-1]) == pytest.approx(mean[first], abs=0.004)
    assert int(row[2]) == explanation.attention[0].weights[3, :, 2, first].argmax() + 1
    assert find(chromium, "#status").get_attribute("textContent").startswith("card attends to ")
    press(chromium, Keys.ESCAPE)
    assert texts(chromium, "#numbers-caption")[0].startswith("What each token attends to most")


def test_a_token_that_is_attended_to_can_be_chosen_and_let_go(chromium: Browser) -> None:
    opened(chromium, classified(), "heads")
    token = find(chromium, ".columns [data-at='4']")
    token.click()
    assert texts(chromium, "#numbers-caption")[0].startswith("“charged” is attended to by")
    assert token.get_attribute("aria-selected") == "true"
    shares = chromium.driver.execute_script(
        "return [...document.querySelectorAll('.rows .token')]"
        ".map((node) => Number(node.style.getPropertyValue('--share')))"
    )
    assert max(shares) == 1
    token.click()
    ActionChains(chromium.driver).move_to_element(find(chromium, "h1")).perform()
    chromium.wait("return document.getElementById('numbers-caption').textContent.startsWith('W')")


def test_a_chosen_token_and_fewer_heads_leave_fewer_lines(chromium: Browser) -> None:
    opened(chromium, classified(), "heads")
    everything = ink(chromium, ".bipartite canvas")
    head = find(chromium, "[data-head='2']")
    ActionChains(chromium.driver).key_down(Keys.SHIFT).click(head).key_up(Keys.SHIFT).perform()
    one = ink(chromium, ".bipartite canvas")
    assert texts(chromium, "[aria-pressed=true]") == ["3"]
    find(chromium, ".rows [data-at='4']").click()
    assert 0 < ink(chromium, ".bipartite canvas") < one < everything


def test_the_lines_of_a_token_begin_beside_it(chromium: Browser) -> None:
    opened(chromium, classified(), "heads")
    for side, edge in (("rows", "left + rows.offsetWidth + 6"), ("columns", "right - 6")):
        find(chromium, f".{side} [data-at='7']").click()
        script = f"""
        const canvas = document.querySelector(".bipartite canvas");
        const [rows, columns] = document.querySelectorAll(".tokens");
        const [left, right] = [rows.offsetLeft, columns.offsetLeft];
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
        copy.drawImage(canvas, 0, 0);
        const {{data}} = copy.getImageData({edge}, 0, 1, canvas.height);
        const drawn = [...Array(canvas.height).keys()].filter((y) => data[4 * y + 3] > 0);
        const step = rows.firstChild.offsetHeight;
        return [Math.min(...drawn) / step, Math.max(...drawn) / step];
        """
        first, last = chromium.driver.execute_script(script)
        assert 7.2 < first < last < 7.8


def test_weights_in_coarser_steps_are_read_back(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "STEPS", (31,))
    explanation = translated(layers=1, heads=1)
    opened(chromium, explanation, "heads")
    find(chromium, ".rows [data-at='3']").click()
    highest = explanation.attention[0].weights[0, 0, 3].max().item()
    row = texts(chromium, "#numbers tbody tr:first-child td")
    assert float(row[-1]) == pytest.approx(highest, abs=highest**0.5 / 31)


def test_special_tokens_and_one_text_of_a_pair_are_left_out(chromium: Browser) -> None:
    opened(chromium, classified("Who paid?", SENTENCE), "heads")
    find(chromium, "[name=special]").click()
    assert "[SEP]" not in texts(chromium, "#view .token")
    find(chromium, "[name=rows]").send_keys("question")
    assert texts(chromium, ".rows .token") == ["Who", "paid", "?"]
    find(chromium, "[name=columns]").send_keys("context")
    assert texts(chromium, ".columns .token")[:3] == ["My", "card", "was"]


def test_headings_of_numbers_are_not_cut_within_a_word(chromium: Browser) -> None:
    opened(chromium, classified(), "heads")
    script = """
    return [...document.querySelectorAll("#numbers th")].map((heading) => {
      const range = document.createRange();
      range.selectNodeContents(heading);
      return [heading.textContent, range.getClientRects().length];
    });
    """
    for heading, lines in chromium.driver.execute_script(script):
        assert lines <= len(heading.split())


def test_a_thumbnail_is_enlarged(chromium: Browser) -> None:
    opened(chromium, classified(gone=((1, 2),)), "model")
    names = "return [...document.querySelectorAll('.thumbnail')].map((n) => n.ariaLabel)"
    habits = chromium.driver.execute_script(names)
    assert len(habits) == 4 * 6 - 1
    assert habits[0].startswith("Layer 1, head 1: mostly the token itself (0.")
    assert habits[2].startswith("Layer 1, head 3: mostly [CLS] (0.")
    assert ink(chromium, ".thumbnail canvas") > 50
    chromium.driver.execute_script("document.querySelector('.thumbnail[tabindex=\"0\"]').focus()")
    press(chromium, Keys.ARROW_UP, Keys.ARROW_RIGHT, Keys.ENTER)
    assert find(chromium, "#tab-heads").get_attribute("aria-selected") == "true"
    assert texts(chromium, "#numbers-caption") == [
        "What each token attends to most: layer 3, head 2"
    ]


def test_the_text_is_shaded_by_one_token(chromium: Browser) -> None:
    opened(chromium, classified(), "tokens")
    assert "My card was charged twice" in find(chromium, ".texts .running").text
    chromium.driver.execute_script("document.querySelector('.texts [tabindex=\"0\"]').focus()")
    press(chromium, Keys.ARROW_RIGHT)
    assert texts(chromium, "#numbers-caption")[0].startswith("“My” attends to")
    find(chromium, "[name=reverse]").click()
    assert texts(chromium, "#numbers-caption")[0].startswith("“My” is attended to by")
    find(chromium, "[name=apart]").click()
    assert texts(chromium, ".copy figcaption") == [f"Head {n}" for n in range(1, 7)]
    lit = "return document.querySelectorAll('.copy:last-child .lit').length"
    assert chromium.driver.execute_script(lit) > 3


@pytest.mark.parametrize("heads", [4, 1], ids=["transformer", "rnn"])
def test_a_translation_starts_with_its_matrix(chromium: Browser, heads: int) -> None:
    explanation = translated(layers=1, heads=heads)
    chromium.open(render(explanation))
    chromium.wait("return document.querySelector('.matrix canvas')?.width > 300")
    assert find(chromium, "#tab-model").is_displayed() == (heads > 1)
    assert find(chromium, "#tab-matrix").get_attribute("aria-selected") == "true"
    find(chromium, ".matrix canvas").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    weight = explanation.attention[0].weights[0].mean(0)[1, 1]
    said = find(chromium, "#status").get_attribute("textContent")
    assert said.startswith("“'” to “The”: ")
    assert float(said.rpartition(" ")[2]) == pytest.approx(weight, abs=0.004)
    press(chromium, Keys.ENTER)
    assert texts(chromium, "#numbers-caption")[0].startswith("“'” attends to: layer 1")
    find(chromium, "#tab-matrix").send_keys(Keys.ARROW_RIGHT)
    press(chromium, Keys.ARROW_RIGHT)
    second = "tab-model" if heads > 1 else "tab-tokens"
    assert chromium.driver.switch_to.active_element.get_attribute("id") == second


def test_another_map_has_its_own_sides(chromium: Browser) -> None:
    opened(chromium, translated(), "heads")
    assert texts(chromium, ".rows .token")[0] == "L"
    find(chromium, "[name=map]").send_keys("the encoder")
    assert texts(chromium, ".rows .token")[:2] == ["[CLS]", "The"]


@pytest.mark.parametrize("view", VIEWS)
def test_512_tokens_are_drawn(chromium: Browser, view: str) -> None:
    words = " ".join([SENTENCE] * 40).split()[:415]
    opened(chromium, classified(" ".join(words), layers=2, heads=2), view)
    canvas = {
        "heads": ".bipartite canvas",
        "model": ".thumbnail canvas",
        "matrix": ".matrix canvas",
    }.get(view)
    if canvas:
        assert ink(chromium, canvas) > 500
    else:
        assert len(texts(chromium, ".texts [role=option]")) > 500
    if view == "heads":
        assert "strongest lines are drawn" in find(chromium, "#hint").text
        script = "document.querySelector('.bipartite').scrollTop = 9000"
        chromium.driver.execute_script(script)
        assert ink(chromium, canvas) > 500
    assert chromium.complaints() == []


def test_equal_weights_too_many_to_draw_are_drawn_in_part(chromium: Browser) -> None:
    explanation = classified(" ".join(["word"] * 398), layers=1, heads=2)
    attends_before = np.stack([np.eye(400, k=-1, dtype=np.float32)] * 2)[None]
    attention = replace(explanation.attention[0], weights=attends_before)
    opened(chromium, replace(explanation, attention=(attention,)), "model")
    assert ink(chromium, ".thumbnail canvas") > 50


def test_canvases_are_drawn_again_in_other_colours(chromium: Browser) -> None:
    opened(chromium, translated(1, 1), "matrix")
    corner = """
    const canvas = document.querySelector(".matrix canvas");
    return [...canvas.getContext("2d").getImageData(canvas.width - 5, 90, 1, 1).data];
    """
    before = chromium.driver.execute_script(corner)
    find(chromium, "#theme").click()
    after = chromium.driver.execute_script(corner)
    assert sum(after[:3]) < 200 < 600 < sum(before[:3])


def test_where_no_weights_fit_it_says_which_are_left_out(
    chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MAX_BYTES", 0)
    chromium.open(render(classified()))
    chromium.wait("return document.getElementById('waiting').hidden")
    assert not find(chromium, "#attention").is_displayed()
    assert "the encoder, within the text: layers 1 to 4" in find(chromium, "main").text
    assert_accessible(chromium)
    assert chromium.complaints() == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_text_of_special_tokens_alone_may_hide_them(chromium: Browser, view: str) -> None:
    opened(chromium, replace(classified(""), attributions=()), view)
    find(chromium, "[name=special]").click()
    if view != "model":  # which has no table beside it
        assert texts(chromium, "#numbers tbody tr") == []
    find(chromium, "[name=special]").click()
    assert chromium.complaints() == []


def test_hostile_text_runs_nothing(chromium: Browser) -> None:
    hostile = "</script><img src=x: onerror=\"document.title='reached'\">"
    explanation = replace(classified(hostile, hostile), model=hostile)
    opened(chromium, explanation, "tokens")
    assert hostile in find(chromium, ".texts .running").text
    assert chromium.driver.title.startswith("What </script>")
    assert chromium.complaints() == []


def test_a_notebook_shows_it_apart_from_its_own_styles(chromium: Browser) -> None:
    styles = "<style>.token, p, button { color: rgb(1, 2, 3) !important; font-size: 40px }</style>"
    cells = "".join(explanation._repr_html_() for explanation in (classified(), translated()))
    chromium.open(f"<!doctype html><html lang=en><title>A notebook</title>{styles}{cells}")
    first, second = chromium.driver.find_elements("tag name", "iframe")
    chromium.driver.switch_to.frame(first)
    chromium.wait("return document.getElementById('attention')?.hidden === false")
    assert ink(chromium, ".bipartite canvas") > 500
    assert find(chromium, "#theme").value_of_css_property("font-size") == "14px"
    find(chromium, "#theme").click()  # though it can remember nothing
    assert find(chromium, "#theme").text == "Light colours"
    chromium.driver.switch_to.default_content()
    chromium.driver.switch_to.frame(second)
    chromium.wait("return document.querySelector('.matrix canvas')?.width > 300")
    assert find(chromium, "#theme").text == "Dark colours"
    chromium.driver.switch_to.default_content()
    assert chromium.complaints() == []
