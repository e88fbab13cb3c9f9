"""Generated strings over all of Unicode: ids, offsets and word ids equal the reference's.

By default a fixed sample of 20,000 strings. ``HEEDFUL_SWEEP=1000000 pytest tests/tokens`` takes
that many (a few minutes), and has ``test_characters.py`` try every setting on every code point.
"""

import os
import random
import unicodedata
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from tests.tiny import SPECIAL

from heedful.tokens import BertTokenizer, Pieces, Vocabulary, bulk
from heedful.tokens.characters import (
    IDEOGRAPHS,
    MARKS,
    MOVABLE,
    PUNCTUATION,
    REMOVED,
    SPACES,
)
from heedful.tokens.normalize import Normalizer

STRINGS = int(os.environ.get("HEEDFUL_SWEEP", "20000"))
SETTINGS: dict[str, tuple[float, dict[str, Any]]] = {
    "uncased": (0.4, {"do_lower_case": True}),
    "cased": (0.3, {"do_lower_case": False}),
    "cased, accents stripped": (0.1, {"do_lower_case": False, "strip_accents": True}),
    "uncased, accents kept": (0.1, {"do_lower_case": True, "strip_accents": False}),
    "ideographs kept": (0.1, {"do_lower_case": True, "tokenize_chinese_chars": False}),
}
"""Share of the strings, and arguments."""


def _characters() -> dict[str, list[str]]:
    """Return characters by the kind of difficulty."""
    every = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    category = {char: unicodedata.category(char) for char in every}
    removed = [char for char in every[:0x110BE] if ord(char) in REMOVED]
    composed = [c for c in every if unicodedata.normalize("NFD", c) != c and not "가" <= c <= "힣"]
    ideographs = [chr(code) for code in IDEOGRAPHS][::4001]
    ends = "\u3400\u4dbf\u4e00\u9fff\U00020000\U0002a6df\U0002b820\U0002b91f\U0002b920\U0002ceaf"
    kinds = {
        "ascii": every[:128],
        "latin": every[0xA0:0x250],
        "stripped marks": [chr(code) for code in MARKS if code < 0xE0000],
        "movable": [chr(code) for code in MOVABLE],
        "later marks": [c for c in every if category[c] == "Mn" and ord(c) not in MARKS],
        "other marks": [c for c in every if category[c] in ("Mc", "Me")],
        "removed": [*removed[::20], *"\0\x7f\xad\ufffd\u200d\u202e\u202c\u2066\u061c\ufeff"],
        "spaces": [*map(chr, SPACES), *"\v\f\x1c\x1d\x1e\x1f\x85"],
        "punctuation": [*map(chr, PUNCTUATION), *(c for c in every if category[c][0] == "P")],
        "composed": composed,
        "hangul": every[0x1100:0x1200] + [chr(code) for code in range(0xAC00, 0xD7A4, 57)],
        "ideographs": [*ideographs, *ends, *"\U0002fa1d\u3007か"],
        "cased": [c for c in every if c.lower() != c],
        "other": list("İıßẞΣσςſKÅΩ\u1fef\u037e\u0345\u0344ﬃ👨\u200d👩🏽\ufe0f"),
    }
    assert all(kinds.values())
    return kinds


CHARACTERS = _characters()
WORDS = ["Hello", "running", "unaffable", "ΟΔΟΣ", "ΌΔΥΣΣΕΎΣ", "Ünïcödé", "a" * 101, "b" * 100]
WORDS += ["[MASK]", "[SEP]", "[UNK]", "[PAD]", "[CLS", "MASK]", "[mask]", "[[MASK]]"]


def _token(random_: random.Random) -> str:
    draw = random_.random()
    if draw < 0.12:
        return random_.choice(WORDS)
    if draw < 0.3:
        return " "
    if draw < 0.5:
        return random_.choice("abcABC.,[]")
    if draw < 0.55:
        kind = random_.choice(("stripped marks", "movable"))
        return "".join(random_.choices(CHARACTERS[kind], k=random_.randrange(1, 12)))
    if draw < 0.6:
        code = random_.randrange(0x110000 - 0x800)
        return chr(code if code < 0xD800 else code + 0x800)
    return random_.choice(CHARACTERS[random_.choice(list(CHARACTERS))])


def _text(random_: random.Random) -> str:
    return "".join(_token(random_) for _ in range(random_.randrange(1, 14)))


@pytest.fixture(scope="module")
def tokens() -> list[str]:
    """Provide a vocabulary without whole words, which would hide generated characters."""
    every = {char for kind in CHARACTERS.values() for char in kind}
    every |= {part for char in every for part in unicodedata.normalize("NFD", char)}
    every |= {part for char in every for part in char.lower()}
    letters = sorted(every | {chr(code) for code in range(0x21, 0x7F)})
    words = ["hello", "un", "##unn", "##ing", "##aff", "##able", "aa", "##aaa", "ab", "##bc"]
    return [*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *words]


def _came_from_there(pieces: Pieces, tokens: list[str], text: str, normalizer: Normalizer) -> bool:
    """Return whether each piece's letters are among those that its slice is normalised to."""
    return all(
        set(tokens[at].removeprefix("##")) <= set("".join(normalizer.words(text[start:end])))
        for at, (start, end) in zip(pieces.ids, pieces.offsets, strict=True)
        if tokens[at] not in SPECIAL
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_generated_strings_are_tokenized_as_by_the_reference(
    name: str, tokens: list[str], compiled: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_HARD_SHARE", 0)  # arrays take all, however hard
    share, settings = SETTINGS[name]
    ours = BertTokenizer(Vocabulary(tokens), **settings)
    theirs = compiled(tokens, **settings)
    strips = settings.get("strip_accents", settings["do_lower_case"])
    normalizer = Normalizer(
        lower_case=settings["do_lower_case"],
        strip_accents=strips,
        split_ideographs=settings.get("tokenize_chinese_chars", True),
        never_split=(),
    )
    random_ = random.Random(f"heedful {name}")
    left = int(STRINGS * share)
    while left > 0:
        texts = [_text(random_) for _ in range(min(5_000, left))]
        left -= len(texts)
        expected = theirs.encode_batch(texts, add_special_tokens=False)
        for text, ids, one in zip(texts, ours.encode_batch(texts), expected, strict=True):
            found = ours.pieces(text)
            assert ids == one.ids, ascii(text)
            assert found.ids == ids, ascii(text)
            assert found.words == one.word_ids, ascii(text)
            if found.offsets != one.offsets:
                # Canonical order puts a mark before one that stood to its left. The reference
                # then gives each the other's place; see test_offsets.py.
                assert any(ord(char) in MOVABLE for char in text), ascii(text)
                assert strips, ascii(text)
                assert _came_from_there(found, tokens, text, normalizer), ascii(text)
        together = ours._encoder.batch(texts, located=True).lists()
        assert together.offsets == [*chain.from_iterable(ours.pieces(t).offsets for t in texts)]
