"""All phrases of the pages exist in Chinese, and a browser that asks for Chinese gets them."""

import ast
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests.browser import Browser, assert_accessible
from tests.explanations.examples import SENTENCE, classified
from tests.golden.copies import LATEST

import heedful
from heedful.explanations.html import render
from heedful.pages.language import ENGLISH, Language, chinese, phrases_in
from heedful.tasks.objectives import OBJECTIVES
from heedful.tasks.objectives.masked_tokens import MASKED

SOURCE = Path(__file__).parents[2] / "src" / "heedful"
CHINESE = re.compile("[\u4e00-\u9fff]")
SAME = {
    *("billing", "delivery", "account", "CLS", "SEP", "tickets", "token", "int", "fp"),
    *("Jain", "and", "Wallace", "Shift", "JSON"),
}
"""Words of the example that are the same in Chinese, besides those of its text."""


def sources(ending: str) -> list[str]:
    return [path.read_text("utf-8") for path in sorted(SOURCE.rglob(f"*.{ending}"))]


def said_by_templates() -> list[str]:
    """Return the phrases of templates and of the code behind them."""
    calls = re.compile(r'phrase\(\s*("(?:[^"\\]|\\.)*")')
    texts = [*sources("html"), *sources("py")]
    return [ast.literal_eval(said) for text in texts for said in calls.findall(text)]


def test_every_phrase_has_its_chinese_and_is_said() -> None:
    example = {"All {} tokens were read."}  # of the module's own docstring
    said = {*phrases_in(sources("js")), *said_by_templates()} | example
    assert said - chinese().phrases.keys() == set(), "chinese.json lacks these"
    assert chinese().phrases.keys() - said == set(), "nothing says these any more"


def test_every_sentence_comes_from_the_code() -> None:
    """At least its longest word is in a string of the code."""
    strings = " ".join(
        node.value
        for text in sources("py")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ).lower()
    for english in chinese().sentences:
        longest = max(re.findall(r"[a-z0-9]+", english.lower()), key=len)
        assert longest in strings or longest.removesuffix("s") in strings, english


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("masking", MASKED)
def test_what_a_pretrained_run_does_is_said_in_chinese(objective: str, masking: str) -> None:
    card = OBJECTIVES[objective].model_card(MASKED[masking])
    assert CHINESE.search(chinese().sentence(card)), card


def test_both_languages_have_the_same_values() -> None:
    for english, said in {**chinese().phrases, **chinese().sentences}.items():
        numbers = Counter(re.findall(r"\{(\d)\}", said))
        assert set(numbers) == {str(at) for at in range(english.count("{}"))}, english
        assert CHINESE.search(said) or len(said) < 12 or said.count("{") == 2, said
        assert (english[0] == " ") <= (said[0] in " ，（。表这"), said


@pytest.mark.parametrize(
    ("english", "said"),
    [
        ("question", "问题"),
        ("label 'no {0} label'", "标签 'no {0} label'"),
        ("answer 'the word x looks replaced'", "答案 'the word x looks replaced'"),
        ("Gives each text one of 2 labels: a, b.", None),
        (
            "The model read 3 of the text's 1,000 tokens.",
            "文本共 1,000 个 token，模型读取了 3 个。",
        ),
        ("what nobody knows", "what nobody knows"),
    ],
)
def test_sentences_keep_their_values(english: str, said: str | None) -> None:
    assert chinese().sentence(english) == (said or "给每条文本 2 个标签中的一个：a, b。")
    assert ENGLISH.sentence(english) == english


@pytest.mark.parametrize(("run", "text"), [("classify", "the cat"), ("embed", ("a cat", "a dog"))])
def test_what_is_explained_is_said_in_chinese(run: str, text: str | tuple[str, str]) -> None:
    explanation = heedful.explain(LATEST / run, text, method="rollout", precision="fp32")
    names = [name.replace("_", " ") for name in explanation.answer]
    for english in (*names, explanation.attributions[0].target, *explanation.notes):
        assert CHINESE.search(chinese().sentence(english)), english


def test_phrases_are_escaped_with_their_values() -> None:
    language = Language(name="xx", phrases={"a {}": "<{0}>"}, sentences={})
    assert language.phrase("a {}", "<b>") == "&lt;&lt;b&gt;&gt;"
    with pytest.raises(KeyError, match="unknown"):
        language.phrase("unknown")


@pytest.mark.parametrize(("language", "is_chinese"), [("zh-CN", True), ("zh", True), ("de", False)])
def test_a_document_is_shown_in_the_language_of_its_reader(
    chromium: Browser, language: str, is_chinese: bool
) -> None:
    example = classified()
    attributions = [replace(one, target="label 'billing'") for one in example.attributions]
    note = "The answer was computed in int8, and its explanation in fp32."
    example = replace(example, attributions=tuple(attributions), notes=(note,))
    chromium.open(render(example), language=language)
    chromium.wait("return document.getElementById('waiting').hidden")
    script = "return [document.documentElement.lang, document.title, document.body.innerText]"
    lang, title, said = chromium.driver.execute_script(script)
    assert lang == ("zh-CN" if is_chinese else "en")
    assert title == ("tickets 看了什么" if is_chinese else "What tickets looked at")
    pieces = {token.piece.removeprefix("##") for token in example.sides[0].tokens}
    words = set(re.findall(r"[A-Za-z]{2,}", said)) - set(re.findall(r"\w+", SENTENCE)) - pieces
    assert bool(CHINESE.search(said)) == is_chinese
    assert (words <= SAME) == is_chinese, words - SAME
    # What is large stands there once, and was moved.
    assert len(chromium.driver.find_elements("css selector", ".running .shaded")) > 10
    assert chromium.complaints() == []


def test_the_chinese_document_is_accessible(chromium: Browser) -> None:
    chromium.open(render(classified()), language="zh-CN")
    chromium.wait("return document.getElementById('waiting').hidden")
    assert_accessible(chromium)
