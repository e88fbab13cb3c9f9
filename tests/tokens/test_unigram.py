"""SentencePiece tokenizers return the same as the reference's on difficult texts.

``HEEDFUL_SWEEP=1000000 pytest tests/tokens/test_unigram.py`` takes that many random strings, and
every line of the data; by default a fixed sample of both.
"""

import gzip
import json
import os
import random
import unicodedata
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.tokens.reference import assert_same_call
from tests.tokens.spiece import big_bird_folder, deberta_v2_folder, xlm_roberta_folder
from tests.tokens.test_call import CUTS, EVERYTHING, PADS

from heedful.batches.words import piece_words
from heedful.tokens import (
    AlbertTokenizer,
    XLMRobertaTokenizer,
    XLNetTokenizer,
    load_tokenizer,
)
from heedful.tokens.clusters import EXTENDING
from heedful.tokens.metaspace import UnigramEncoder

SWEEP = "HEEDFUL_SWEEP" in os.environ
STRINGS = int(os.environ.get("HEEDFUL_SWEEP", "2000"))
NAMES = ["albert", "albert, cased", "xlm-roberta", "xlm-roberta, compiled", "xlnet-chinese"]
NAMES += ["big_bird", "big_bird, compiled", "xlnet", "xlnet, compiled"]
NAMES += ["deberta-v2"]

HARD = [
    *("", " ", "  ", "\t", "a ", "a  ", " a", "  a", "a\u200b", "a\r\nb", "x\u200db", "▁", "▁▁a"),
    *("a▁b", "a ▁b", "a\x01b", "ab\x01c", "ab\x01", "U.S. a", "a .", ". .", " .", ".  ", "''"),
    *("'''", "``a''  ''b", "[MASK]", "a [MASK] b", " [MASK]", "a \t[MASK].", "<unk>x", "[CLS]"),
    *(
        "<mask>",
        "a <mask> b",
        "\u3000<mask> <mask>",
        "＜unk＞x😀😁 😂",
        "＜mask＞ a<mask>b",
        "(x)@@ y",
    ),
    *("İstanbul Σ", "Ünï  ﬁne ﬁ\u0301x é e\u0301 1,000 10,000,", "北京 １２３　㍿、株式会社。"),
    *(
        "각 각",
        "\u0301a \u0301 ",
        "👩🏽\u200d🚀 ☕\ufe0f",
        "a\u1b44b",
        "n\u0303o",
        "か\u3099",
        "½\x01a",
    ),
    *("\u0600e\u0301", "a \u0600 \u0301", "x\x85", "x \x85", "\x85", "the " * 40),
]
LONG = "the a un the b hel " * 14 + "the"
SHORTER = "the a un the b hel " * 12 + "the a b"
"""As many pieces of XLNet's as ``LONG`` has of the others': each has room beside a short text."""
TEXTS = ["a café, isn't it? it's the [MASK] unable 日本😀x", "", LONG, "x", "\n"]
OTHERS = ["no.\tit was the b's", LONG, "the short one", "", "y z"]
WORDS = [["the", "unable", "", "a b", "[MASK] x", "日本x", "ok😀"], [], ["x"]]


@pytest.fixture(scope="module")
def albert_folder(data_folder: Path) -> Path:
    return data_folder / "tokenizers/albert"


@pytest.fixture(scope="module")
def pairs(data_folder: Path, albert_folder: Path, tmp_path_factory: Any) -> dict[str, Any]:
    """Provide our tokenizers, each with the reference's."""
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    pytest.importorskip("sentencepiece", reason="the reference needs it")
    transformers.logging.set_verbosity_error()
    albert_file = str(albert_folder / "spiece.model")
    xlm_folder = xlm_roberta_folder(albert_folder, tmp_path_factory.mktemp("xlm"))
    xlm = transformers.AutoTokenizer.from_pretrained(xlm_folder)
    saved = tmp_path_factory.mktemp("compiled")
    xlm.save_pretrained(saved)
    (saved / "sentencepiece.bpe.model").unlink(missing_ok=True)
    bird_folder = big_bird_folder(albert_folder, tmp_path_factory.mktemp("bird"))
    bird = transformers.AutoTokenizer.from_pretrained(bird_folder)
    saved_bird = tmp_path_factory.mktemp("compiled_bird")
    bird.save_pretrained(saved_bird)
    (saved_bird / "spiece.model").unlink(missing_ok=True)
    disentangled = deberta_v2_folder(albert_folder, tmp_path_factory.mktemp("deberta"))
    deberta = transformers.AutoTokenizer.from_pretrained(disentangled)
    chinese = data_folder / "tokenizers/xlnet-chinese/spiece.model"
    cased = {"do_lower_case": False, "keep_accents": True}
    english = str(data_folder / "tokenizers/xlnet/spiece.model")
    xlnet = transformers.XLNetTokenizerFast(vocab_file=english)
    xlnet_saved = tmp_path_factory.mktemp("xlnet")
    xlnet.save_pretrained(xlnet_saved)
    (xlnet_saved / "spiece.model").unlink(missing_ok=True)
    albert = transformers.AlbertTokenizerFast(vocab_file=albert_file)
    return {
        "albert": (AlbertTokenizer(albert_file), albert),
        "albert, cased": (AlbertTokenizer(albert_file, **cased), _cased(albert)),
        "xlm-roberta": (XLMRobertaTokenizer.from_pretrained(xlm_folder), xlm),
        "xlm-roberta, compiled": (
            load_tokenizer(saved),
            transformers.AutoTokenizer.from_pretrained(saved),
        ),
        "big_bird": (load_tokenizer(bird_folder), bird),
        "big_bird, compiled": (
            load_tokenizer(saved_bird),
            transformers.AutoTokenizer.from_pretrained(saved_bird),
        ),
        "deberta-v2": (load_tokenizer(disentangled), deberta),
        "xlnet": (XLNetTokenizer(english), xlnet),
        "xlnet, compiled": (
            load_tokenizer(xlnet_saved),
            transformers.AutoTokenizer.from_pretrained(xlnet_saved),
        ),
        "xlnet-chinese": (
            XLNetTokenizer(chinese),
            transformers.XLNetTokenizerFast(vocab_file=str(chinese)),
        ),
    }


def _cased(reference: Any) -> Any:
    """Return the reference's result with do_lower_case=False and keep_accents=True."""
    tokenizer = json.loads(reference.backend_tokenizer.to_str())
    steps = tokenizer["normalizer"]["normalizers"]
    assert [steps.pop(2)["type"] for _ in range(3)] == ["NFKD", "StripAccents", "Lowercase"]
    made = type(reference.backend_tokenizer).from_str(json.dumps(tokenizer))
    return SimpleNamespace(backend_tokenizer=made)


def _is_shifted(ours: UnigramEncoder, text: str) -> bool:
    """Return whether characters are dropped at the start of a part, which the reference ignores."""
    splitter = ours._splitter
    parts = [part for part in splitter.added.split_early(text) if part.token is None]
    for start, stop, _ in parts:
        _, sources = splitter._in_chunk.sourced(splitter.trimmed(text[start:stop])[1])
        if start < stop and (not sources or sources[0]):
            return True
    return False


def _assert_equal(ours: Any, theirs: Any, texts: list[str]) -> int:
    """Compare ids, words, tokens and offsets; return how many texts the reference shifts."""
    expected = theirs.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
    together = ours._encoder.batch(texts, located=True).lists()
    assert ours.encode_batch(texts) == [one.ids for one in expected]
    assert (together.ids == list(chain.from_iterable(one.ids for one in expected))) is True
    shifted = 0
    offsets: list[tuple[int, int]] = []
    for text, one in zip(texts, expected, strict=True):
        pieces = ours.pieces(text)
        offsets += pieces.offsets
        assert (pieces.ids, pieces.words) == (one.ids, one.word_ids), ascii(text)
        spelled = ours.tokenize(text)
        # The reference shows an added token together with the spaces that it took.
        for token, right, token_id in zip(spelled, one.tokens, one.ids, strict=True):
            assert token == right or token_id in ours._encoder._splitter.added.ids.values()
        if pieces.offsets != one.offsets:
            assert _is_shifted(ours._encoder, text), ascii(text)
            shifted += 1
    assert (together.offsets == offsets) is True
    return shifted


@pytest.mark.parametrize("name", NAMES)
def test_hard_texts(pairs: dict[str, Any], name: str) -> None:
    ours, theirs = pairs[name]
    for text in HARD:
        assert _assert_equal(ours, theirs, [text]) == (text[:1] == "\x01"), ascii(text)
    assert _assert_equal(ours, theirs, HARD) == 0


def test_what_is_dropped_at_the_start_moves_no_offsets(pairs: dict[str, Any]) -> None:
    ours, theirs = pairs["albert"]
    text = "\x01ab c"
    one = theirs.backend_tokenizer.encode(text, add_special_tokens=False)
    pieces = ours.pieces(text)
    assert pieces.ids == one.ids
    assert [text[start:end] for start, end in pieces.offsets] == ["ab", " c"]
    assert [text[start:end] for start, end in one.offsets] == ["\x01a", "b "]


EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
KINDS = {
    "marks": [character for character in EVERY if unicodedata.category(character)[0] == "M"],
    "composed": [c for c in EVERY if unicodedata.normalize("NFKD", c) != c],
    "extending": [chr(code) for code in EXTENDING],
    "every": EVERY,
    "white": list("\t\n\r\v\f\x85\xa0\u3000\u200b\u200c\u200d\ufeff\xad\u2028\x01\x1c\u0600\u0605"),
    "other": list("中国人民ﬁ½㍿１２Ａか\u3099ｶﾞเขาकि각\u1161\u11a8▁éabcABC.,[]-'\"`()"),
    "words": HARD,
    "spaces": [" ", " ", "  ", "   "],
}


def _strings(name: str, count: int) -> Iterator[str]:
    random_ = random.Random(f"heedful {name}")
    kinds = list(KINDS)
    for _ in range(count):
        size = random_.randrange(1, 12)
        yield "".join(random_.choice(KINDS[random_.choice(kinds)]) for _ in range(size))


def _in_batches(texts: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(texts, 5_000)):
        yield batch


@pytest.mark.parametrize("name", NAMES)
def test_random_strings(pairs: dict[str, Any], name: str) -> None:
    count = STRINGS // len(NAMES)
    shifted = sum(
        _assert_equal(*pairs[name], batch) for batch in _in_batches(_strings(name, count))
    )
    assert shifted < count / 10


def _lines(folder: Path, patterns: list[str]) -> Iterator[str]:
    """Yield each line of some files once."""
    met: set[str] = set()
    for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
        if path.parts[-3] != "tokenizers":
            with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
                fresh = [line for line in stream.read().split("\n") if line not in met]
            met.update(fresh)
            yield from fresh


FILES = {
    "albert": ["ag_news/test*", "wnut17/dev*", "multi30k/test*"],
    "xlnet": ["ag_news/test*", "wnut17/dev*", "multi30k/test*"],
    "xlnet-chinese": ["zh/cmrc2018/dev*", "zh/cluener/dev*", "zh/tatoeba/*"],
}


@pytest.mark.parametrize("name", FILES)
def test_real_texts(pairs: dict[str, Any], data_folder: Path, name: str) -> None:
    patterns = ["**/*.gz"] if SWEEP else FILES[name]
    lines = islice(_lines(data_folder, patterns), 0, None, 1 if SWEEP else 40)
    assert sum(_assert_equal(*pairs[name], batch) for batch in _in_batches(lines)) == 0


@pytest.mark.parametrize("name", ["albert", "xlm-roberta", "big_bird", "xlnet", "deberta-v2"])
def test_calls(pairs: dict[str, Any], name: str) -> None:
    ours, theirs = pairs[name]
    long = SHORTER if name == "xlnet" else LONG
    texts, others = ([long if one is LONG else one for one in each] for each in (TEXTS, OTHERS))
    for number, (cut, pad) in enumerate(zip(CUTS * len(PADS), PADS * len(CUTS), strict=True)):
        options = {"max_length": 512, **cut} if cut.get("truncation") is True else dict(cut)
        options |= {**pad, **EVERYTHING, "add_special_tokens": number % 4 != 3}
        options["return_overflowing_tokens"] = number % 2 == 1
        second = None if number % 3 == 0 else others
        assert_same_call(ours(texts, second, **options), theirs(texts, second, **options))
    assert_same_call(ours(texts, others), theirs(texts, others))
    options = {**EVERYTHING, "is_split_into_words": True}
    assert_same_call(ours(WORDS, **options), theirs(WORDS, **options))


@pytest.mark.parametrize("name", ["albert", "xlm-roberta", "big_bird", "xlnet", "deberta-v2"])
def test_decoding(pairs: dict[str, Any], name: str) -> None:
    ours, theirs = pairs[name]
    for text in ["Hello, the (x) U.S. [MASK] 😀 ok", " a  b", "北京 1,000", ""]:
        ids = ours.encode(text)
        for skip in (False, True):
            assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)
    ids = ours.encode_batch(["un ab"])[0]
    assert ours.text_of(ids) == "un ab"
    assert ours.continuation(ids[1:], ids[:1]) == " ab"


def test_a_piece_that_begins_with_no_space_goes_on_with_its_word(pairs: dict[str, Any]) -> None:
    ours, _ = pairs["albert"]
    ids = ours.encode_batch(["unaffable (x) [MASK]"])[0]
    assert ours.convert_ids_to_tokens(ids) == [
        *("▁un", "aff", "able", "▁", "(", "▁x", ")"),
        "[MASK]",
    ]
    assert [ours.continues_word(at) for at in ids] == [False, True, True, *[False] * 5]


def test_a_chunk_means_the_same_wherever_it_was_seen_first(pairs: dict[str, Any]) -> None:
    # Chunks are remembered; the same ones come in other company.
    ours, theirs = pairs["xlm-roberta"]
    texts = ["a", " a", "a a", "a ", "x\u3000", "x\u3000 a", "(x)", "a (x)", "(x) ", "\u0301 a"]
    for _ in range(2):
        for text in texts + texts[::-1]:
            _assert_equal(ours, theirs, [text, f"a {text}", f"{text} a"])


def test_half_a_surrogate_pair_is_dropped(pairs: dict[str, Any]) -> None:
    ours, _ = pairs["albert"]
    assert ours.pieces("a\ud800b \udc00").ids == ours.pieces("ab ").ids
    assert ours.pieces("\ud800ab").offsets == [(1, 3)]


def test_words_are_slices_without_the_space_before_them(pairs: dict[str, Any]) -> None:
    ours, _ = pairs["albert"]
    text = " In Paris  Bob sang."
    spans = piece_words([text], ours)[0].words
    assert [text[a:b] for a, b in spans.tolist()] == ["In", "Paris", "Bob", "sang", "."]
