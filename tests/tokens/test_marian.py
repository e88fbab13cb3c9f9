"""Marian folders against ``sentencepiece`` and the reference's tokenizer."""

import io
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.batches.parallel import cut_source
from heedful.errors import UserError
from heedful.reading import Record
from heedful.tasks.answers.translations import align_words
from heedful.tokens import TextTokenizer, TranslationTokenizer
from heedful.tokens.learning import count_strings_between_spaces, learn_translation
from heedful.tokens.marian import MarianText, model_of
from heedful.tokens.text import BYTES, EOS, PAD, UNKNOWN

sentencepiece = pytest.importorskip("sentencepiece", reason="needs the extra [marian]")

NESTED = ["a" * length for length in range(2, 63)]
PIECES = ["▁", *"abcté.,'\u00a0<", "▁a", "▁t", "▁.", "aba", "bab", "▁abab", "the", "▁the", "</s"]
OURS = TextTokenizer([EOS, UNKNOWN, *BYTES, *PIECES, *NESTED, "▁\u00a0", "日本", PAD])

PARTS = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.sampled_from([*PIECES, " ", "  ", "\n", "\0", EOS, UNKNOWN, "<0x41>", "😀", "a" * 80]),
)
# Without the one character that cannot be told from a space there.
TEXTS = st.lists(PARTS, max_size=20).map(lambda parts: "".join(parts).replace("▁", "_"))


@pytest.fixture(scope="module")
def cutter() -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=model_of(OURS))


@given(text=TEXTS)
@settings(max_examples=400)
def test_the_file_we_write_cuts_as_we_do(cutter: Any, text: str) -> None:
    (ids,) = OURS.encode_batch([text])
    assert cutter.encode(text, out_type=str) == OURS.pieces(ids)
    assert cutter.decode(OURS.pieces(ids)) == text


@given(ids=st.lists(st.integers(2, len(OURS.tokens) - 2), max_size=12))
def test_the_file_we_write_spells_as_we_do(cutter: Any, ids: list[int]) -> None:
    assert cutter.decode(OURS.pieces(ids)) == OURS.decode(ids)


@given(text=TEXTS)
def test_we_read_what_we_write(text: str) -> None:
    read = MarianText(model_of(OURS), OURS.ids, source="source.spm")
    (ids,) = read.encode_batch([text])
    assert [ids] == OURS.encode_batch([text])
    assert read.decode(ids) == text.strip()
    begins = len(text) - len(text.lstrip())
    assert [text[begins:].strip()[slice(*span)] for span in read.offsets(ids)] == [
        text[max(first, begins) : max(min(last, len(text.rstrip())), begins, first)]
        for first, last in OURS.offsets(ids)
    ]


# Folders as OPUS-MT's, with models that the library learns itself.

LETTERS = {"source": "abcdefgh ßäö ABC 12 .,“”’ ①ﬁ", "target": "abcdxyz éèç ABC 34 .,«»’ ½"}


def _texts(side: str, number: int, seed: int) -> list[str]:
    draw = random.Random(f"{side} {seed}")
    words = ["".join(draw.choices(LETTERS[side], k=draw.randint(1, 7))) for _ in range(60)]
    return [" ".join(draw.choices(words, k=draw.randint(1, 12))) for _ in range(number)]


def _learn(side: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_texts(side, 300, 0)),
        model_writer=model,
        vocab_size=150,
        hard_vocab_limit=False,
        normalization_rule_name="nmt_nfkc",
        bos_id=-1,
        minloglevel=2,
    )
    return model.getvalue()


def _write(folder: Path, *, codes: tuple[str, ...] = (), separate: bool = False) -> Path:
    folder.mkdir()
    tokens: list[list[str]] = []
    for side in ("source", "target"):
        model = _learn(side)
        (folder / f"{side}.spm").write_bytes(model)
        cutter = sentencepiece.SentencePieceProcessor(model_proto=model)
        tokens.append([cutter.id_to_piece(at) for at in range(cutter.get_piece_size())])
    if not separate:
        tokens = [[*tokens[0], *tokens[1]]]
    for name, side in zip(("vocab.json", "target_vocab.json"), tokens, strict=False):
        # A few pieces that no vocabulary has, as some of the public models lack some.
        kept = [token for token in side if token not in ("a", "▁", EOS, UNKNOWN)]
        kept = kept[:55] if separate else kept
        kept = [EOS, UNKNOWN, *dict.fromkeys(kept), *codes]
        ids = {token: at for at, token in enumerate([*kept, PAD])}
        (folder / name).write_text(json.dumps(ids))
    config = {"separate_vocabs": separate, "source_lang": "eng", "target_lang": "fra"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("marian")
    return _write(made / "opus-mt", codes=(">>fra<<", ">>ita_Latn<<"))


def _reference(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    return transformers.MarianTokenizer.from_pretrained(folder)


@pytest.mark.filterwarnings("ignore:Recommended")
@pytest.mark.parametrize("separate", [False, True], ids=["joint", "separate"])
def test_ids_and_texts_are_those_of_the_reference(tmp_path: Path, separate: bool) -> None:
    codes = () if separate else (">>fra<<", ">>ita_Latn<<")
    made = _write(tmp_path / "opus-mt", codes=codes, separate=separate)
    ours, theirs = TranslationTokenizer.from_pretrained(made), _reference(made)
    assert ours.pad_token_id == theirs.pad_token_id
    assert ours.eos_token_id == theirs.eos_token_id
    texts = ["", " ", "  a \t b\n", "日本 😀▁x", "a <unseen> b", ">> ab << c", "<<fra>> a"]
    texts += _texts("source", 200, 1) + _texts("target", 100, 2)
    texts += [f"{code}{gap}{text}" for code in codes for gap in ("", " ") for text in texts[:20]]
    for text, ids in zip(texts, ours.source.encode_batch(texts), strict=True):
        expected = theirs(text)["input_ids"]
        if text != ">> ab << c":  # they take all that is before << for the code of a language
            assert [*ids, ours.eos_token_id] == expected, text
    for text, ids in zip(texts, ours.target.encode_batch(texts), strict=True):
        if text != ">> ab << c":
            assert [*ids, ours.eos_token_id] == theirs(text_target=text)["input_ids"], text
    draw = random.Random(3)
    for _ in range(200):
        ids = draw.choices(range(ours.target.vocab_size), k=draw.randint(0, 12))
        assert ours.target.decode(ids) == theirs.decode(ids, skip_special_tokens=True), ids


def test_offsets_are_slices_of_what_is_said(folder: Path) -> None:
    ours = TranslationTokenizer.from_pretrained(folder).source
    for ids in ours.encode_batch(_texts("source", 20, 4)):
        said = ours.decode(ids)
        for at, (begin, end) in zip(ids, ours.offsets(ids), strict=True):
            if at != ours.unk_token_id:
                assert said[begin:end] == ours.tokens[at].lstrip("▁") or ours.tokens[at] == "▁"


def test_a_folder_is_written_as_it_was_read(folder: Path, tmp_path: Path) -> None:
    ours = TranslationTokenizer.from_pretrained(folder)
    ours.save_pretrained(tmp_path)
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    again = TranslationTokenizer.from_pretrained(tmp_path)
    assert again.source.ids == ours.source.ids
    texts = _texts("source", 20, 5)
    assert again.source.encode_batch(texts) == ours.source.encode_batch(texts)
    assert ours.joint
    assert again.joint


def test_each_part_of_a_long_text_has_its_language(folder: Path) -> None:
    tokenizer = TranslationTokenizer.from_pretrained(folder)
    code = ">>ita_Latn<<"
    bare = " bcd ef. gh bcd ef gh bcd. ef gh."
    record = Record(text=bare, text_pair=None, labels=(), source="f", line=1)
    (ids,) = tokenizer.source.encode_batch([bare])
    expected = cut_source(record, ids, tokenizer, limit=9, rule="window")
    assert len(expected) > 2
    coded = [tokenizer.source.ids[code], *ids]
    record = replace(record, text=code + bare)
    parts = cut_source(record, coded, tokenizer, limit=10, rule="window")
    assert parts == [[coded[0], *part] for part in expected]
    # Each part is said in one word. All but the last attend to their language code alone.
    word = next(token for token in tokenizer.target.tokens if token[0] == "▁" and len(token) > 1)
    said = [[tokenizer.target.ids[word]] for _ in parts]
    attention = [np.eye(1, len(part), dtype=np.float32) for part in parts]
    attention[-1] = np.roll(attention[-1], 1, 1)
    spoken = " ".join([word[1:]] * len(parts))
    links = align_words(code + bare, parts, spoken, said, attention, tokenizer)
    assert links is not None
    first, last = links.links
    assert [first[1], last[1]] == [0, len(parts) - 1]
    assert links.source_words[last[0]][0] > len(bare) / 2


def test_a_language_that_is_not_written_is_refused(folder: Path) -> None:
    ours = TranslationTokenizer.from_pretrained(folder)
    with pytest.raises(UserError, match=r"no language '>>frq<<' \(did you mean '>>fra<<'\?\)"):
        ours.source.encode_batch([">>frq<< a"])


def test_an_id_of_no_token_is_refused(folder: Path) -> None:
    """A model may have more words than its folder names."""
    ours = TranslationTokenizer.from_pretrained(folder).target
    with pytest.raises(UserError, match=rf"^token id {ours.vocab_size}: .* has the ids 0 to \d+"):
        ours.decode([2, ours.vocab_size])


def test_half_a_surrogate_pair_is_refused(folder: Path) -> None:
    ours = TranslationTokenizer.from_pretrained(folder)
    with pytest.raises(UserError, match=r"^'a\\ud800': contains U\+D800, a lone surrogate"):
        ours.source.encode_batch(["a", "a\ud800"])


def test_broken_folders_are_refused(tmp_path: Path) -> None:
    made = _write(tmp_path / "opus-mt")
    (made / "target.spm").unlink()
    with pytest.raises(UserError, match=r"target\.spm: no such file"):
        TranslationTokenizer.from_pretrained(made)
    for damaged in (b"nothing", b""):
        (made / "target.spm").write_bytes(damaged)
        with pytest.raises(UserError, match=r"target\.spm: not a model of sentencepiece"):
            TranslationTokenizer.from_pretrained(made)
    ids = json.loads((made / "vocab.json").read_text())
    (made / "vocab.json").write_text(json.dumps({**ids, PAD: 7}))
    with pytest.raises(UserError, match=r"vocab\.json: expected the ids 0 to \d+, each of one"):
        TranslationTokenizer.from_pretrained(made)
    del ids[PAD]
    (made / "vocab.json").write_text(json.dumps(ids))
    with pytest.raises(UserError, match=r"source\.spm: '<pad>' is not in its vocabulary"):
        TranslationTokenizer.from_pretrained(made)


def test_added_tokens_are_refused(tmp_path: Path) -> None:
    """The reference matches them whole."""
    made = _write(tmp_path / "opus-mt", codes=(">>fra<<",))
    config = json.loads((made / "tokenizer_config.json").read_text())
    told = {"0": {"content": EOS, "special": True}, "1": {"content": ">>fra<<", "special": True}}
    config["added_tokens_decoder"] = told
    (made / "tokenizer_config.json").write_text(json.dumps(config))
    tokens = TranslationTokenizer.from_pretrained(made).source
    (made / "added_tokens.json").write_text(json.dumps({"<term>": tokens.vocab_size}))
    with pytest.raises(UserError, match="added token '<term>': not supported in a Marian folder"):
        TranslationTokenizer.from_pretrained(made)
    (made / "added_tokens.json").unlink()
    config["added_tokens_decoder"]["2"] = {"content": tokens.tokens[5], "special": False}
    (made / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="not supported in a Marian folder"):
        TranslationTokenizer.from_pretrained(made)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("added_tokens_decoder", [1]),
        ("added_tokens_decoder", 5),
        ("additional_special_tokens", 5),
    ],
)
def test_added_tokens_of_another_type_are_refused(tmp_path: Path, key: str, told: Any) -> None:
    made = _write(tmp_path / "opus-mt")
    config = json.loads((made / "tokenizer_config.json").read_text())
    (made / "tokenizer_config.json").write_text(json.dumps(config | {key: told}))
    with pytest.raises(UserError, match=rf"{key} (\[1\] is a list|5 is a int)$"):
        TranslationTokenizer.from_pretrained(made)


@pytest.mark.filterwarnings("ignore:Recommended")
@pytest.mark.parametrize("separate", [False, True], ids=["joint", "separate"])
def test_the_reference_reads_what_we_learn(tmp_path: Path, separate: bool) -> None:
    words = [count_strings_between_spaces(_texts(side, 100, 6)) for side in ("source", "target")]
    ours = learn_translation(*words, size=400, separate=separate)
    ours.save_pretrained(tmp_path)
    for name, side in (("source.spm", ours.source), ("target.spm", ours.target)):
        assert isinstance(side, TextTokenizer)
        (tmp_path / name).write_bytes(model_of(side))
    theirs = _reference(tmp_path)
    assert (theirs.pad_token_id, theirs.eos_token_id) == (ours.pad_token_id, ours.eos_token_id)
    for text in _texts("source", 100, 7):
        (ids,), (written,) = ours.source.encode_batch([text]), ours.target.encode_batch([text])
        assert theirs(text)["input_ids"] == [*ids, ours.eos_token_id]
        assert theirs(text_target=text)["input_ids"] == [*written, ours.eos_token_id]
        ended = [*written, ours.eos_token_id, ours.pad_token_id]
        assert theirs.decode(ended, skip_special_tokens=True) == text.strip()
