"""Folders of unigram tokenizers: reading, writing, refusals, and each step alone."""

import json
import random
import struct
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tokens import spiece

from heedful.errors import UserError
from heedful.tokens import AlbertTokenizer, XLMRobertaTokenizer, load_tokenizer
from heedful.tokens.charsmap import Charsmap
from heedful.tokens.rewriting import Rewriting
from heedful.tokens.sentencepiece_file import PieceKind, parse_model, read_model
from heedful.tokens.unigram import Unigram
from heedful.tokens.unigram_json import as_compiled, read_step

PIECES = [
    ("<pad>", 0.0, PieceKind.CONTROL),
    ("<unk>", 0.0, PieceKind.UNKNOWN),
    ("[CLS]", 0.0, PieceKind.CONTROL),
    ("[SEP]", 0.0, PieceKind.CONTROL),
    ("[MASK]", 0.0, PieceKind.CONTROL),
    (".", 0.0, PieceKind.USER_DEFINED),
    *(
        (piece, -float(rank), PieceKind.NORMAL)
        for rank, piece in enumerate(["▁a", "b", "▁", "c"], 1)
    ),
]
SMALL = spiece.contents(PIECES, unknown_id=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spiece.model").write_bytes(SMALL)
    return tmp_path


def test_a_file_is_written_as_it_was(folder: Path, tmp_path: Path) -> None:
    ours = load_tokenizer(folder)
    assert isinstance(ours, AlbertTokenizer)
    ours.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved/spiece.model").read_bytes() == SMALL
    again = load_tokenizer(tmp_path / "saved")
    assert isinstance(again, AlbertTokenizer)
    assert again.identity() == ours.identity()
    assert (
        again("a. bc [MASK]").input_ids
        == ours("a. bc [MASK]").input_ids
        == [2, 6, 5, 8, 7, 9, 4, 3]
    )


def test_a_tokenizer_is_known_by_the_same_wherever_it_is_read(tmp_path: Path) -> None:
    # A rule for "A", as a double array: the byte leads to a leaf, which says where "a" begins.
    rules = [0] * 68
    rules[0], rules[67], rules[64] = 2 << 10, 65 | 1 << 8 | 3 << 10, 0x80000000
    charsmap = struct.pack("<I68I", 4 * 68, *rules) + b"a\0"
    assert Charsmap(charsmap, source="x").image("A") == "a"
    path = tmp_path / "spiece.model"
    path.write_bytes(spiece.contents(PIECES, charsmap=charsmap, unknown_id=1))
    one, other = AlbertTokenizer(path), AlbertTokenizer(path)
    assert one.identity() == other.identity()
    # Nor does it hold an address, which the next process has elsewhere.
    assert "0x" not in json.dumps(one.identity())
    path.write_bytes(spiece.contents(PIECES, charsmap=charsmap[:-2] + b"b\0", unknown_id=1))
    assert AlbertTokenizer(path).identity() != one.identity()


def test_the_reference_reads_what_is_written(folder: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    pytest.importorskip("sentencepiece", reason="the reference needs it")
    text = "a. bc [MASK] Bé, 1 A"
    for settings_ in ({}, {"do_lower_case": False, "keep_accents": True}):
        ours = AlbertTokenizer(folder / "spiece.model", model_max_length=9, **settings_)
        ours.save_pretrained(tmp_path / "saved")
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
        assert theirs(text)["input_ids"] == ours(text).input_ids
        assert theirs.model_max_length == 9
        theirs.save_pretrained(tmp_path / "theirs")
        (tmp_path / "theirs/spiece.model").unlink(missing_ok=True)
        compiled = AlbertTokenizer.from_pretrained(tmp_path / "theirs")
        assert compiled(text).input_ids == ours(text).input_ids
        assert (compiled.do_lower_case, compiled.keep_accents) == (
            ours.do_lower_case,
            ours.keep_accents,
        )
        compiled.save_pretrained(tmp_path / "again")
        last = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
        assert last(text)["input_ids"] == ours(text).input_ids
        other = not compiled.do_lower_case
        with pytest.raises(UserError, match=f"do_lower_case={not other}, which cannot be changed"):
            AlbertTokenizer.from_pretrained(tmp_path / "theirs", do_lower_case=other)


def _complaint(contents: bytes) -> str:
    """Return the error about a file; empty if it is read."""
    try:
        parse_model(contents, source="x.model")
    except UserError as error:
        return str(error)
    return ""


def test_a_file_that_ends_too_soon_is_refused_or_read() -> None:
    said = [_complaint(SMALL[:end]) for end in range(len(SMALL))]
    assert sum(map(bool, said)) > len(SMALL) / 2
    start = "x.model: not a model of SentencePiece, or damaged: "
    assert all(one.startswith(start) for one in said if one)


@given(data=st.data())
@settings(max_examples=100)
def test_damage_is_one_line(data: st.DataObject) -> None:
    damaged = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(SMALL) - 1))] = data.draw(st.integers(0, 255))
    assert "\n" not in _complaint(bytes(damaged))


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "it has no pieces"),
        (b"\xff" * 11, "more than 64 bits"),
        (b"<html>", "is no field|ends within"),
        (spiece.contents(PIECES, model_type=2), "a BPE model is not supported"),
        (spiece.contents(PIECES, unknown_id=99), "the unknown piece is number 99"),
        (spiece.contents([("a", float("nan"), PieceKind.NORMAL)]), "a piece has the score nan"),
        (spiece.message(1, spiece.message(1, b"\xff")), "is not UTF-8"),
        (spiece.number(1, 7), "field 1 is a number"),
        (spiece.message(1, spiece.number(3, 9)), "of kind 9"),
    ],
)
def test_what_is_wrong_is_said(contents: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_model(contents, source="x.model")


def test_another_unknown_token_than_the_model_s_is_refused(folder: Path, tmp_path: Path) -> None:
    # The reference gives unknown text the model's token, whatever the folder says.
    config = {"tokenizer_class": "AlbertTokenizer", "unk_token": "b"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="its unknown token is '<unk>', not 'b'"):
        load_tokenizer(folder)
    other = tmp_path / "xlm"
    other.mkdir()
    (other / "sentencepiece.bpe.model").write_bytes(spiece.contents(PIECES[1:], unknown_id=0))
    config = {"tokenizer_class": "XLMRobertaTokenizer", "unk_token": "b"}
    (other / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="its unknown token is '<unk>', not 'b'"):
        load_tokenizer(other)


def test_a_missing_file_and_damaged_rules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"spiece.model: no such file"):
        read_model(tmp_path / "spiece.model")
    for rules in (b"\0", struct.pack("<I", 400) + bytes(8), struct.pack("<I", 3) + bytes(8)):
        with pytest.raises(UserError, match="its rules for normalising are damaged"):
            Charsmap(rules, source="x")
    wild = Charsmap(struct.pack("<III", 8, 0xFFFFFFFF, 0) + b"a", source="x")
    with pytest.raises(UserError, match="its rules for normalising are damaged"):
        wild.image("a")


def _compiled(folder: Path, **changes: Any) -> Path:
    """Write a small tokenizer.json with some changes."""
    special = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4}
    vocab = [[token, 0.0] for token in special] + [["▁a", -1.0], ["b", -2.0], ["▁", -3.0]]
    value = {
        "added_tokens": [
            {"id": at, "content": token, "special": True, "normalized": False, "lstrip": at == 4}
            | {"rstrip": False, "single_word": False}
            for token, at in special.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": False},
    }
    value |= changes
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(value))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizerFast"}')
    return folder


SPLITTERS: list[Any] = [
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
    {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    ]},
    {"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
    ]},
]  # fmt: skip
NORMALIZERS: list[Any] = [
    None,
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "b"},
    {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, {"type": "Lowercase"}]},
    {"type": "Sequence", "normalizers": [
        {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Replace", "pattern": {"String": "bb"}, "content": " a"},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
    ]},
]  # fmt: skip


@pytest.mark.parametrize(("splitter", "normalizer"), [*product([None, *SPLITTERS], NORMALIZERS)])
def test_other_ways_to_split_and_normalize(tmp_path: Path, splitter: Any, normalizer: Any) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the reference tokenizer")
    changes = {"normalizer": normalizer} | ({"pre_tokenizer": splitter} if splitter else {})
    ours = load_tokenizer(_compiled(tmp_path, **changes))
    assert isinstance(ours, XLMRobertaTokenizer)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    random_ = random.Random("heedful")
    parts = [
        "a",
        "b",
        "A",
        "bb",
        " ",
        "  ",
        "\t",
        "<mask>",
        "<s>",
        "▁",
        "é",
        "か\u3099",
        "\u200b",
        "ﬁ",
    ]
    for _ in range(80):
        text = "".join(random_.choices(parts, k=random_.randrange(8)))
        one, pieces = theirs.encode(text), ours.pieces(text)
        assert (pieces.ids, pieces.words) == (one.ids, one.word_ids), ascii(text)
        assert pieces.offsets == one.offsets, ascii(text)
        assert ours.encode_batch([text]) == [one.ids], ascii(text)


@given(st.lists(st.floats(-100, 0) | st.floats(allow_nan=False, allow_infinity=False)))
def test_scores_are_the_numbers_that_the_reference_reads(scores: list[float]) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the reference tokenizer")
    vocab = [["<unk>", -3.7156315401381725], *[[f"t{n}", score] for n, score in enumerate(scores)]]
    model = {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": vocab}
    theirs = tokenizers.Tokenizer.from_str(json.dumps({"version": "1.0", "model": model}))
    read = json.loads(theirs.to_str())["model"]["vocab"]
    assert [repr(as_compiled(score)) for _, score in vocab] == [repr(float(x)) for _, x in read]


def test_of_cuts_that_are_equally_likely_the_reference_s_is_taken(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the reference tokenizer")
    vocab = [[token, 0.0] for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]
    vocab += [
        ["▁D", -8.594820140288821],
        ["S", -8.783879110123955],
        ["6", -10.052866148862417],
        ["00", -9.919922989523041],
        ["0", -9.279209364925823],
    ]
    model = {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": False}
    ours = load_tokenizer(_compiled(tmp_path, model=model))
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert isinstance(ours, XLMRobertaTokenizer)
    assert ours.encode_batch(["DS6000"]) == [theirs.encode("DS6000").ids]
    ours.save_pretrained(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved/tokenizer.json").read_text())["model"]["vocab"]
    assert saved == vocab  # or it would drift with each time


def test_unknown_characters_are_written_in_bytes_where_the_model_has_them(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the reference tokenizer")
    vocab = [[token, 0.0] for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "▁", "a")]
    vocab += [[f"<0x{byte:02X}>", -9.0] for byte in range(256) if byte != 0xE5]
    model = {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": True}
    ours = load_tokenizer(_compiled(tmp_path, model=model))
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("aé", "éxa中", "a北", "<0x41>", ""):  # 北 has a byte that has no token
        one, pieces = theirs.encode(text), ours.pieces(text)
        assert (pieces.ids, pieces.offsets) == (one.ids, one.offsets), text
    assert isinstance(ours, XLMRobertaTokenizer)
    assert ours.decode(ours.encode_batch(["aé 中"])[0]) == "aé 中"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": {"type": "BertNormalizer"}}, "BertNormalizer.*is not supported"),
        (
            {"normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}},
            "supported",
        ),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "!"}}, "not Base64"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "only a Metaspace"),
        ({"pre_tokenizer": None}, "only a Metaspace"),
        ({"post_processor": {"type": "TemplateProcessing", "single": []}}, "put special tokens"),
        ({"post_processor": None}, "put special tokens"),
        ({"model": {"type": "Unigram", "unk_id": 9, "vocab": [["a", 0.0]]}}, "unk_id 9"),
        ({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", "x"]]}}, "not a token with a"),
    ],
)
def test_what_is_not_supported_is_refused(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        XLMRobertaTokenizer.from_pretrained(_compiled(tmp_path, **changes))


def _best(tokens: dict[str, float], word: str) -> float:
    """Return the score of the best cut, by trying all."""
    penalty = min(tokens.values()) - 10

    def best(rest: str) -> float:
        ends = [end for end in range(1, len(rest) + 1) if rest[:end] in tokens or end == 1]
        return max(
            (tokens.get(rest[:end], penalty) + best(rest[end:]) for end in ends), default=0.0
        )

    return best(word)


@given(
    scores=st.dictionaries(
        st.text("abc", min_size=1, max_size=4), st.integers(-9, -1), min_size=1, max_size=12
    ),
    word=st.text("abcd", max_size=6),
)
@settings(max_examples=60)
def test_no_cut_is_likelier(scores: dict[str, int], word: str) -> None:
    tokens = ["<unk>", *scores]
    unigram = Unigram(tokens, [0.0, *map(float, scores.values())], 0, byte_fallback=False)
    cut = unigram.segment(word)
    total, begin = 0.0, 0
    penalty = min(0, *scores.values()) - 10
    for token_id, end in cut:
        piece = word[begin:end]
        if token_id:
            assert tokens[token_id] == piece
            total += scores[piece]
        else:
            total += penalty * len(piece)
        begin = end
    assert begin == len(word)
    assert total == pytest.approx(_best({"<unk>": 0.0, **scores}, word))
    assert not any(one == other == 0 for (one, _), (other, _) in pairwise(cut))


def test_a_long_word_takes_time_that_grows_with_its_length() -> None:
    asked = 0

    class Counted(dict[str, float]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal asked
            asked += 1
            return super().get(key, default)

    unigram = Unigram(["<unk>", "ab", "abab", "b"], [0.0, -1.0, -1.5, -3.0], 0, byte_fallback=False)
    unigram._scores = Counted(unigram._scores)
    counts = []
    for size in (1_000, 10_000):
        asked = 0
        unigram.segment("ab" * size)
        counts.append(asked)
    assert counts[1] < 11 * counts[0]


def test_normal_forms_are_those_of_the_reference() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="needs the reference tokenizer")
    # Every code point of the blocks that have marks, forms or case, and some of the others.
    blocks = (
        range(0x3400),
        range(0xA600, 0xAC00),
        range(0xF900, 0x10000),
        range(0x11000, 0x11400),
        range(0x1D400, 0x1D800),
    )
    codes = {*range(0, 0x30000, 997), *(code for block in blocks for code in block)}
    whole = [chr(code) for code in sorted(codes) if not 0xD800 <= code < 0xE000]
    random_ = random.Random("heedful")
    for name in ("NFC", "NFKC", "NFD", "NFKD", "Nmt", "StripAccents", "Lowercase"):
        theirs = getattr(tokenizers.normalizers, name)()
        ours = Rewriting([read_step(Path("x"), {"type": name})])
        for first in range(0, len(whole), 0x4000):
            text = " ".join(whole[first : first + 0x4000])
            assert (ours.text(text) == theirs.normalize_str(text)) is True, (name, first)
        kinds = [whole[0x300:0x370], whole[0x1100:0x1200], list("aeiかᄀ가ﬁé\u09c7\u09be "), whole]
        for _ in range(150):
            text = "".join(random_.choice(random_.choice(kinds)) for _ in range(9))
            assert ours.text(text) == theirs.normalize_str(text), (name, ascii(text))
