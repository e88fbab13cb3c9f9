"""The file loads nothing, shows any text as it is, and stays small."""

import base64
import json
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.explanations.examples import SENTENCE, classified, side, translated, weights

from heedful.explanations import html
from heedful.explanations.explanation import Completeness, Explanation
from heedful.explanations.html import encode, encoded_weights, render

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
    shown = HOSTILE.replace("\ud800", "?")
    assert page.text.count(shown) >= 5
    assert page.data["sides"][0]["name"] == HOSTILE
    tokens = page.data["sides"][0]["tokens"]
    assert "onerror" in "".join(token["shown"] for token in tokens)


def test_weights_are_read_back_as_closely_as_it_says() -> None:
    (one,) = classified().attention
    (kept,) = encoded_weights([one], 10**9)
    assert len(kept) == one.weights.shape[0] * one.weights.shape[1]
    for name, code in kept.items():
        layer, head = map(int, name.split("."))
        read = np.frombuffer(zlib.decompress(base64.b64decode(code)), np.uint8) / 255
        np.testing.assert_allclose(
            read.reshape(one.weights.shape[2:]) ** 2, one.weights[layer, head], atol=0.004, rtol=0
        )
    for weight, precision in ((0.001, 0.13), (0.1, 0.013)):
        near = np.linspace(weight / 2, weight, 1000, dtype=np.float32)
        read = (np.frombuffer(encode(near), np.uint8) / 255) ** 2
        assert 0 < np.abs(read - near).max() < weight * precision


def test_what_does_not_fit_is_left_out_from_the_first_layer_on_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    explanation = classified(layers=4, heads=3, gone=((3, 0), (2, 1)))
    whole = Page(render(explanation)).data["maps"][0]["weights"]
    assert set(whole) == {f"{layer}.{head}" for layer in range(4) for head in range(3)} - {
        "3.0",
        "2.1",
    }
    assert "Left out" not in Page(render(explanation)).text

    # Room for the last two layers, and for a part of the one before.
    room = sum(len(whole[name]) + 12 for name in ("3.1", "3.2", "2.0", "2.2", "1.0"))
    (kept,) = encoded_weights(explanation.attention, room)
    assert set(kept) == {"3.1", "3.2", "2.0", "2.2"}
    # Of the very last layer a part is better than nothing.
    (kept,) = encoded_weights(explanation.attention, len(whole["3.1"]) + 12)
    assert set(kept) == {"3.1"}
    assert encoded_weights(explanation.attention, 0) == [{}]

    size = len(render(explanation).encode())
    monkeypatch.setattr(html, "MAX_BYTES", size + 4096 - len(whole["0.0"]) - len(whole["0.1"]))
    page = Page(render(explanation))
    assert {name[0] for name in page.data["maps"][0]["weights"]} == {"1", "2", "3"}
    assert "Left out, to keep this file small: the encoder, within the text: layers 1." in page.text


def test_heads_that_are_left_out_of_a_layer_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = classified(layers=1, heads=6)
    monkeypatch.setattr(html, "encoded_weights", lambda *_: [{"0.0": "", "0.4": ""}])
    assert "heads 2 to 4, 6 of layer 1" in Page(render(explanation)).text


def test_the_last_layers_of_all_maps_come_first() -> None:
    cross, encoder = translated(layers=3, heads=2).attention
    whole = encoded_weights([cross, encoder], 10**9)
    last = sum(len(kept[f"2.{head}"]) + 12 for kept in whole for head in range(2))
    kept = encoded_weights([cross, encoder], last)
    assert [set(names) for names in kept] == [{"2.0", "2.1"}] * 2


def test_a_file_of_512_tokens_stays_under_its_limit() -> None:
    words = " ".join([SENTENCE] * 40).split()[:415]
    explanation = classified(" ".join(words), layers=2, heads=1)
    count = len(explanation.sides[0].tokens)
    assert 500 <= count <= 520
    # Noise over all tokens is what compresses least.
    noise = np.random.default_rng(0).random((24, 4, count, count)).astype(np.float32)
    noise /= noise.sum(-1, keepdims=True)
    (one,) = explanation.attention
    source = render(replace(explanation, attention=(replace(one, weights=noise),)))
    assert 4_500_000 < len(source.encode()) <= 5_000_000
    assert "Left out, to keep this file small" in source


def test_without_attention_there_is_no_script_and_no_section() -> None:
    page = Page(render(replace(classified(), attention=())))
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert "Attention" not in page.text


def test_maps_of_one_kind_are_told_apart_by_what_they_read() -> None:
    first, second = side("red", name="choice 1"), side("blue", name="choice 2")
    (one,) = classified("red").attention
    maps = tuple(replace(one, rows=at, columns=at, weights=weights(1, 1, 3, 3)) for at in (0, 1))
    explanation = replace(classified("red"), sides=(first, second), attention=maps, attributions=())
    labels = [one["label"] for one in Page(render(explanation)).data["maps"]]
    assert labels == [f"the encoder, within the text: choice {n}" for n in (1, 2)]


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
        "start": None,
        "tokens_used": 5,
    }
    text = " ".join(Page(render(replace(classified(), answer=answer))).text.split())
    assert "entitiestype: PER; start: 0; end: 3; text: Ann" in text
    assert "vector384 numbers" in text
    assert "labelsnone" in text
    assert "tokens used5" in text
