"""The page in a real browser shows the answers of the runs."""

from typing import Any

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.support.select import Select
from tests.browser import DESKTOP, PHONE, Browser, assert_accessible
from tests.serving.browsing import (
    all_of,
    answer_to,
    ask,
    by_id,
    explain,
    is_wide,
    open_run,
    submit,
    text_of,
    texts_of,
    type_into,
    wait,
)
from tests.serving.conftest import Live

EMOJI = "Dan 👩‍🚀 Mille\u0301r 🇩🇪 lives near New Lima 🎉"
HOSTILE = (
    "<img src=x onerror=\"document.title='reached'\"></script><b>Ann</b> is in Paris & &lt;Lima"
)
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


def percent(share: float) -> str:
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return "> 99.9 %" if 0.9995 <= share < 1 else f"{100 * share:.1f} %"


def expected(live: Live, run: str) -> str:
    """Return the run's answers in Python, as a screen reader reads them out."""
    parts = [part for text in ASKED[run] for part in text.split("\n")]
    model = live.load(run)
    if run == "embed":
        return "Nearest: " + max(parts[1:], key=lambda other: model((parts[0], other)).similarity)
    answer: Any = model(tuple(parts) if len(parts) > 1 else parts[0])
    match run:
        case "classify" | "pair":
            return f"{answer.label}, {percent(answer.score)}"
        case "many":
            return "; ".join(f"{one}, {percent(answer.scores[one])}" for one in answer.label)
        case "regress":
            return f"{answer.value:.4g}"
        case "tag":
            return "; ".join(f"{one.text}, {one.label}" for one in answer.entities)
        case "answer":
            return str(answer.answer)
        case "choose":
            return f"{answer.text}, {percent(answer.score)}"
    return str(answer.text)


@pytest.mark.parametrize("run", ASKED)
def test_every_task_is_answered_explained_and_accessible(
    page: Browser, live: Live, run: str
) -> None:
    dark = len(run) % 2 == 0
    open_run(page, live.url, run, dark=dark)
    assert ask(page, *ASKED[run]) == expected(live, run)
    assert text_of(page, "problem") == ""
    assert "tokens were read" in text_of(page, "answer")
    if run == "embed":
        assert not by_id(page, "why").is_displayed()
    else:
        explain(page)
        assert "Explained: " in text_of(page, "why-result")
        assert "Checked: " in text_of(page, "why-result")
        assert "What matters most for " in text_of(page, "why-spoken")
        shaded = texts_of(page, "#why-result .running")
        assert set(shaded) <= {part for text in ASKED[run] for part in text.split("\n")}
        assert all_of(page, "#why-result .running .weighed")
    if run not in ("many", "pair", "regress", "masked", "tag"):  # like others, or tested below
        assert_accessible(page)
    assert not is_wide(page)


def test_marks_are_exact_slices(page: Browser, live: Live) -> None:
    open_run(page, live.url, "tag")
    ask(page, EMOJI)
    entities = live.load("tag")(EMOJI).entities
    kinds = [f"\u00a0{entity.label}" for entity in entities]
    assert entities
    assert texts_of(page, "mark .kind") == kinds
    assert texts_of(page, "mark") == [
        entity.text + kind for entity, kind in zip(entities, kinds, strict=True)
    ]
    without = "for (const one of document.querySelectorAll('mark .kind')) one.remove()"
    page.driver.execute_script(without)
    assert texts_of(page, "#answer .running") == [EMOJI]

    open_run(page, live.url, "answer")
    question, context = ASKED["answer"]
    ask(page, question, context)
    assert texts_of(page, "mark") == [live.load("answer")((question, context)).answer]
    assert texts_of(page, "#answer .running") == [context]


def test_masks_are_filled_in_their_place(page: Browser, live: Live) -> None:
    open_run(page, live.url, "pretrain")
    type_into(page, 0, "the  is red.")
    page.driver.execute_script("arguments[0].setSelectionRange(4, 4)", by_id(page, "input-0"))
    by_id(page, "mask").click()
    assert by_id(page, "input-0").get_property("value") == "the [MASK] is red."
    submit(page)
    answer = live.load("pretrain")("the [MASK] is red.")
    assert wait(page, lambda: text_of(page, "spoken")) == answer.text
    candidates = answer.blanks[0].candidates
    for number in (0, 2):
        all_of(page, ".bars button")[number].click()
        assert texts_of(page, "#answer .running") == [candidates[number].text]
        assert texts_of(page, "mark") == [candidates[number].token]
    type_into(page, 1, "it is very red.")
    submit(page)
    assert wait(page, lambda: all_of(page, "#answer .headline"))[0].text.startswith("The text ")


def test_words_of_a_translation_light_up_with_theirs(page: Browser, live: Live) -> None:
    open_run(page, live.url, "translate")
    ask(page, *ASKED["translate"])
    links = live.load("translate")(ASKED["translate"][0], alignments=True).links
    text = ASKED["translate"][0]
    targets, sources = all_of(page, "#answer .running")
    words = targets.find_elements("css selector", ".word")
    assert len(words) == len(links.target_words)
    assert texts_of(page, "#answer .running")[1] == text

    def lit() -> list[str]:
        return [one.text for one in sources.find_elements("css selector", ".lit")]

    def linked(target: int) -> list[str]:
        return [text[slice(*links.source_words[s])] for s, t in links.links if t == target]

    ActionChains(page.driver).move_to_element(words[1]).perform()
    assert lit() == linked(1)
    ActionChains(page.driver).move_to_element(by_id(page, "about")).perform()
    assert lit() == []
    page.driver.execute_script("arguments[0].focus()", words[0])
    for number in range(1, len(words)):
        ActionChains(page.driver).send_keys(Keys.ARROW_RIGHT).perform()
        assert lit() == linked(number)
    ActionChains(page.driver).send_keys(Keys.HOME, Keys.ENTER, Keys.TAB).perform()
    assert lit() == linked(0)  # kept
    others = [one.text for one in live.load("translate")(text).n_best[1:]]
    assert [item.split("\n")[0] for item in texts_of(page, ".others li")] != others  # with scores
    assert all(
        item.startswith(other)
        for item, other in zip(texts_of(page, ".others li"), others, strict=True)
    )


def test_an_explanation_is_of_what_is_chosen(page: Browser, live: Live) -> None:
    open_run(page, live.url, "classify")
    ask(page, *ASKED["classify"])
    explain(page)
    answer = live.load("classify")(ASKED["classify"][0])
    assert f"label '{answer.label}'" in text_of(page, "why-result")
    other = next(label for label in answer.scores if label != answer.label)
    Select(by_id(page, "target")).select_by_value(other)
    by_id(page, "why-button").click()
    wait(page, lambda: f"label '{other}'" in text_of(page, "why-result"))
    type_into(page, 0, "word " * 300)  # more than is explained
    submit(page)
    wait(page, lambda: text_of(page, "why-result") == "")
    explain(page)
    assert "tokens; at most 256 can be explained" in text_of(page, "why-problem")
    assert "413" in page.wait_for_complaints()[0]  # the browser itself logs what is refused


def test_attention_is_shown_in_a_frame_of_its_own(page: Browser, live: Live) -> None:
    open_run(page, live.url, "classify", dark=True)
    by_id(page, "theme").click()
    ask(page, *ASKED["classify"])
    by_id(page, "attention-button").click()
    wait(page, lambda: by_id(page, "attention").is_displayed())
    page.driver.switch_to.frame("attention-view")
    wait(page, lambda: all_of(page, "#attention canvas"))
    assert page.driver.execute_script("return document.documentElement.dataset.theme") == "light"
    assert page.driver.execute_script("return self.origin") == "null"  # it can reach nothing here
    page.driver.switch_to.default_content()
    assert by_id(page, "attention-save").get_attribute("download") == "classify-explanation.html"
    ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()
    wait(page, lambda: not by_id(page, "attention").is_displayed())


def test_the_page_works_by_keyboard_alone(page: Browser, live: Live) -> None:
    open_run(page, live.url, "classify")

    def press(*keys: str) -> None:
        ActionChains(page.driver).send_keys(*keys).perform()

    def reach(name: str) -> None:
        for _ in range(20):
            press(Keys.TAB)
            if page.driver.switch_to.active_element.get_attribute("id") == name:
                return
        raise AssertionError(f"{name} cannot be reached")

    reach("run")
    press("m", "a", "n")  # to the run many, by its first letters
    wait(page, lambda: "any number of" in text_of(page, "about"))
    reach("input-0")
    press("the red cat and the blue soup")
    ActionChains(page.driver).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(
        Keys.CONTROL
    ).perform()
    assert wait(page, lambda: text_of(page, "spoken")).startswith("animal, ")
    reach("why-button")
    press(Keys.ENTER)
    wait(page, lambda: text_of(page, "why-result"))
    reach("attention-button")
    press(Keys.SPACE)
    wait(page, lambda: by_id(page, "attention").is_displayed())


@pytest.mark.parametrize("run", ["tag", "embed", "choose"])
def test_hostile_text_stays_text(page: Browser, live: Live, run: str) -> None:
    open_run(page, live.url, run)
    texts = (HOSTILE,) if run == "tag" else ("what?", f"{HOSTILE}\n<b>other</b>")
    ask(page, *texts)
    if run == "tag":
        explain(page)
        assert HOSTILE in texts_of(page, "#why-result .running")
    assert HOSTILE in text_of(page, "answer").replace("\u00a0PER", "").replace("\u00a0LOC", "")
    assert all_of(page, "#answer img, #answer b, #why b, #why img, #lines b, #lines img") == []
    assert page.driver.title == f"{run} – heedful"


def test_an_unknown_answer_is_a_readable_table(page: Browser, live: Live) -> None:
    open_run(page, live.url, "classify")
    answer_to(
        page,
        "JSON.stringify({answers: [{stars: 4, parts: [{name: '<b>', good: true}, {name: 'y'}], "
        "of: {deep: [1, null, 0.123456789]}, tokens_total: 9, tokens_used: 5}]})",
    )
    ask(page, "a text")
    shown = by_id(page, "answer").text
    assert [part in shown for part in ("stars", "4", "<b>", "deep", "1, none, 0.1235")] == [
        True
    ] * 5
    assert "Only 5 of 9 tokens were read." in shown
    assert [row.text for row in all_of(page, "#answer tbody tr")] == ["<b> true", "y none"]


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)])
def test_every_part_is_accessible_and_fits(
    page: Browser, live: Live, size: tuple[int, int], dark: bool
) -> None:
    open_run(page, live.url, "tag", size=size, dark=dark)
    ask(page, "Ann is in Paris, " + "very" * 60 + " far from Lima")
    for fold in all_of(page, "details"):
        page.driver.execute_script("arguments[0].open = true", fold)
    explain(page)
    for fold in all_of(page, "#why-result details"):
        page.driver.execute_script("arguments[0].open = true", fold)
    assert not is_wide(page)
    assert_accessible(page)
    by_id(page, "attention-button").click()
    wait(page, lambda: by_id(page, "attention").is_displayed())
    assert not is_wide(page)
    assert_accessible(page)


def test_a_long_list_is_cut_and_can_be_unfolded(page: Browser, live: Live) -> None:
    open_run(page, live.url, "classify")
    answer_to(
        page,
        "JSON.stringify({answers: [{label: 'l0', score: 0.5, scores: Object.fromEntries("
        "Array.from({length: 80}, (_, n) => [`l${n}`, 0.5 / (n + 1)]))}]})",
    )
    ask(page, "a text")
    assert [row.is_displayed() for row in all_of(page, ".bars tbody tr")] == [True] * 12 + [
        False
    ] * 68
    by_text = {one.text: one for one in all_of(page, "#answer summary")}
    by_text["68 more"].click()
    assert all(row.is_displayed() for row in all_of(page, ".bars tbody tr"))


def test_the_chosen_run_stays_in_the_address(page: Browser, live: Live) -> None:
    open_run(page, live.url, "regress")
    assert page.driver.title == "regress – heedful"
    assert len(all_of(page, "#run option")) > 2
    Select(by_id(page, "run")).select_by_value("choose")
    wait(page, lambda: page.driver.current_url.endswith("#choose"))
    assert [label.text for label in all_of(page, "#ask label")] == [
        *("Question", "Choices (one per line)")
    ]
    page.driver.back()
    wait(page, lambda: page.driver.title == "regress – heedful")
    assert [label.text for label in all_of(page, "#ask label")] == ["Text"]
