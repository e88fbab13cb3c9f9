"""The file loads nothing, shows any text unchanged, and stays small."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.explanations.examples import SENTENCE, classified, side, translated
from tests.explanations.examples import weights as drawn

from heedful.explanations import html, weights
from heedful.explanations.explanation import ATTENTION_NOTE, Completeness, Explanation
from heedful.explanations.html import render
from heedful.explanations.weights import Packed

HOSTILE = "</script><img src=x onerror=\"document.title='reached'\"><!-- & \u2028 {{ 1 }} \ud800"


class Page(HTMLParser):
    """The elements of a page, its text, and the data of its scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data: dict = {}
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        tag, attributes = self.elements[-1] if self.elements else ("", {})
        if attributes.get("type") == "application/json" and not self.data:
            self.data = json.loads(data)
        elif tag not in ("script", "style"):
            self.text += data


@pytest.mark.parametrize(
    "explanation", [classified(), translated(), classified(HOSTILE, HOSTILE)], ids=lambda e: e.model
)
def test_nothing_is_loaded_and_nothing_runs_from_attributes(explanation: Explanation) -> None:
    source = render(explanation)
    for tag, attributes in Page(source).elements:
        assert tag not in ("img", "iframe", "object", "embed", "base", "video", "audio")
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name != "style"
            if name in ("src", "href", "action", "formaction", "srcset", "data", "xlink:href"):
                assert value
                assert value.startswith(("#", "data:"))
    assert "http:" not in source
    assert "https:" not in source
    assert "@import" not in source
    assert "url(" not in source


def test_hostile_text_stays_text() -> None:
    explanation = replace(
        classified(HOSTILE), model=HOSTILE, answer={HOSTILE: HOSTILE}, notes=(HOSTILE,)
    )
    explanation = replace(
        explanation,
        attributions=(replace(explanation.attributions[0], method="m", target=HOSTILE),),
        sides=(replace(explanation.sides[0], name=HOSTILE),),
    )
    page = Page(render(explanation))
    shown = HOSTILE.replace("\ud800", "\ufffd")
    assert page.text.count(shown) >= 5
    assert page.data["sides"][0]["name"] == HOSTILE
    tokens = page.data["sides"][0]["tokens"]
    assert "onerror" in "".join(token["shown"] for token in tokens)


def test_layers_that_are_left_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = classified(layers=4, heads=3, gone=((3, 0), (2, 1)))
    page = Page(render(explanation))
    assert "Left out" not in page.text
    assert "rounded" not in page.text

    layers = {"1.0": "", "1.1": "", "1.2": "", "2.0": "", "2.2": "", "3.1": "", "3.2": ""}
    monkeypatch.setattr(html, "pack", lambda *_: Packed(steps=63, codes=(layers,)))
    page = Page(render(explanation))
    assert "Left out, to keep this file small: the encoder, within the text: layers 1." in page.text
    assert "a weight of 0.1 is off by at most 0.005" in page.text


def test_heads_that_are_left_out_of_a_layer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = {"0.0": "", "0.4": ""}
    monkeypatch.setattr(html, "pack", lambda *_: Packed(steps=255, codes=(codes,)))
    page = Page(render(classified(layers=1, heads=6)))
    assert "heads 2 to 4, 6 of layer 1" in page.text


def test_what_attention_does_not_mean_stands_with_it_once() -> None:
    explanation = replace(classified(), notes=("Some text was cut.", ATTENTION_NOTE))
    text = Page(render(explanation)).text
    assert text.count(ATTENTION_NOTE) == 1
    assert text.index("Some text was cut.") < text.index("Attention\n") < text.index(ATTENTION_NOTE)


def test_a_file_of_512_tokens_stays_under_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "STEPS", (255,))
    words = " ".join([SENTENCE] * 40).split()[:415]
    explanation = classified(" ".join(words), layers=2, heads=1)
    count = len(explanation.sides[0].tokens)
    assert 500 <= count <= 520
    # Noise over all tokens is what compresses least.
    noise = np.random.default_rng(0).random((6, 6, count, count)).astype(np.float32)
    noise /= noise.sum(-1, keepdims=True)
    (one,) = explanation.attention
    source = render(replace(explanation, attention=(replace(one, weights=noise),)))
    assert 4_500_000 < len(source.encode()) <= 5_000_000
    assert "Left out, to keep this file small" in source


def test_what_was_not_read_is_muted_on_both_ends() -> None:
    explanation = classified("A long time ago a film was made")
    (side,) = explanation.sides
    read = side.tokens[3:6]  # without the special tokens, and the first and the last words
    part = replace(
        explanation,
        sides=(replace(side, tokens=read),),
        attention=(),
        attributions=tuple(
            replace(one, scores=((1.0,) * len(read),)) for one in explanation.attributions
        ),
    )
    source = render(part)
    assert '<span class="muted">A long </span>' in source
    assert '<span class="muted"> film was made</span>' in source


def test_without_attention_there_is_no_script_and_no_section() -> None:
    page = Page(render(replace(classified(), attention=())))
    scripts = [attributes.get("id") for tag, attributes in page.elements if tag == "script"]
    assert scripts == ["phrases", None], "what all pages share, and what it says in Chinese"
    assert "Attention" not in page.text


def test_maps_of_one_kind_are_told_apart_by_what_they_read() -> None:
    first, second = side("red", name="choice 1"), side("blue", name="choice 2")
    (one,) = classified("red").attention
    maps = tuple(replace(one, rows=at, columns=at, weights=drawn(1, 1, 3, 3)) for at in (0, 1))
    explanation = replace(classified("red"), sides=(first, second), attention=maps, attributions=())
    labels = [(one["label"], one["to"]) for one in Page(render(explanation)).data["maps"]]
    assert labels == [("the encoder, within the text", f"choice {n}") for n in (1, 2)]


def test_the_check_of_completeness_is_shown_and_a_miss_warned_of() -> None:
    explanation = classified()
    assert "the scores add up to +4.21, and the output differs by +4.22" in render(explanation)
    missed = Completeness(total=-4.21, difference=1.5, steps=512, held=False)
    attribution = replace(explanation.attributions[0], completeness=missed)
    page = render(replace(explanation, attributions=(attribution,)))
    assert "The check failed: the scores add up to −4.21, but the output differs by +1.5" in page


def test_answers_of_any_shape_are_shown() -> None:
    answer = {
        "entities": [{"type": "PER", "start": 0, "end": 3, "text": "Ann"}],
        "vector": [0.5] * 384,
        "labels": [],
        "scores": {"low": 0.1, "high": 0.9},
        "start": None,
        "tokens_used": 5,
    }
    text = " ".join(Page(render(replace(classified(), answer=answer))).text.split())
    assert "entitiestype: PER; start: 0; end: 3; text: Ann" in text
    assert "vector384 numbers" in text
    assert "labelsnone" in text
    assert "scoreshigh: 0.9; low: 0.1" in text
    assert "tokens used5" in text
