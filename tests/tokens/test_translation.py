import gzip
import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from tests.tiny_folders import write_folder

from heedful.errors import UserError
from heedful.files import write_manifest
from heedful.reading import Record
from heedful.reading.parallel import PairFilter
from heedful.tokens import TextTokenizer, TranslationTokenizer
from heedful.tokens.learning import count_strings_between_spaces, learn_translation
from heedful.tokens.text import BYTES, EOS, PAD, UNKNOWN
from heedful.tokens.translation import is_translation_folder

ONE = TextTokenizer([EOS, UNKNOWN, *BYTES, "▁", "a", PAD])
WORDS = Counter({"ab": 9, "abc,": 5, "ñ\u00a0": 3})


def test_a_joint_tokenizer_is_written_and_read(tmp_path: Path) -> None:
    made = learn_translation(WORDS, Counter({"xy": 3}), size=300)
    made.save_pretrained(tmp_path / "run")
    read = TranslationTokenizer.from_pretrained(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "vocab.json",
        "tokenizer_config.json",
    }
    assert read.joint
    assert read.source is read.target
    assert read.source.tokens == made.source.tokens
    assert (read.eos_token_id, read.pad_token_id) == (0, made.source.vocab_size - 1)
    assert is_translation_folder(tmp_path / "run")


def test_a_tokenizer_of_two_vocabularies_is_written_and_read(tmp_path: Path) -> None:
    made = learn_translation(WORDS, Counter({"xy": 3}), size=300, separate=True)
    made.save_pretrained(tmp_path)
    read = TranslationTokenizer.from_pretrained(tmp_path)
    assert not read.joint
    assert read.source.tokens == made.source.tokens
    assert read.target.tokens == made.target.tokens


def test_sides_have_one_padding() -> None:
    other = TextTokenizer([EOS, UNKNOWN, *BYTES, "▁", PAD])
    with pytest.raises(UserError, match="pad_token_id is 260 on one side and 259 on the other"):
        TranslationTokenizer(ONE, other)


def test_other_folders_are_none_of_a_translation(tmp_path: Path, tiny_model: Path) -> None:
    assert not is_translation_folder(tiny_model)
    with pytest.raises(UserError, match=r"holds no translator \(there is no vocab\.json\)"):
        TranslationTokenizer.from_pretrained(tiny_model)
    (tmp_path / "vocab.json").write_text(json.dumps(ONE.ids))
    assert not is_translation_folder(tmp_path)
    with pytest.raises(UserError, match=r"source\.spm: no such file"):
        TranslationTokenizer.from_pretrained(tmp_path)
    write_folder("gpt2", tmp_path / "gpt2")
    with pytest.raises(UserError, match=r"holds no translator, but a model with a merges\.txt"):
        TranslationTokenizer.from_pretrained(tmp_path / "gpt2")


def test_the_vocabulary_of_another_model_is_refused(tmp_path: Path) -> None:
    TranslationTokenizer(ONE, ONE).save_pretrained(tmp_path)
    right = {"vocab_size": 261, "decoder_vocab_size": 300, "pad_token_id": 260, "eos_token_id": 0}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(right))
    TranslationTokenizer.from_pretrained(tmp_path)
    for key, value in (
        *(("vocab_size", 260), ("decoder_vocab_size", 8), ("pad_token_id", 259)),
        *(("vocab_size", "x"), ("decoder_vocab_size", {"x": 1}), ("pad_token_id", "x")),
    ):
        path.write_text(json.dumps({**right, key: value}))
        with pytest.raises(
            UserError, match=rf"config\.json: {key} is {value!r}; .* that of another model"
        ):
            TranslationTokenizer.from_pretrained(tmp_path)


def test_the_vocabulary_of_another_run_is_refused(tmp_path: Path) -> None:
    TranslationTokenizer(ONE, ONE).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_text("weights")
    write_manifest(tmp_path)
    (tmp_path / "model.safetensors").write_text("which are not looked at here")
    TranslationTokenizer.from_pretrained(tmp_path)
    other = TextTokenizer([EOS, UNKNOWN, *BYTES, "▁", "b", PAD])
    TranslationTokenizer(other, other).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"vocab\.json: damaged \(its SHA-256 is not the one"):
        TranslationTokenizer.from_pretrained(tmp_path)


def test_a_damaged_vocabulary_is_named(tmp_path: Path) -> None:
    TranslationTokenizer(ONE, ONE).save_pretrained(tmp_path)
    path = tmp_path / "vocab.json"
    for broken in ({**ONE.ids, "b": 3}, {**ONE.ids, "b": "3"}, {**ONE.ids, "b": True}):
        path.write_text(json.dumps(broken))
        with pytest.raises(UserError, match=r"vocab\.json: expected the ids 0 to 261"):
            TranslationTokenizer.from_pretrained(tmp_path)
    path.write_text(json.dumps({**ONE.ids, "b c": len(ONE.ids)}))
    with pytest.raises(UserError, match=r"vocab\.json: 'b c' is not a piece of text"):
        TranslationTokenizer.from_pretrained(tmp_path)


def test_real_texts_come_back_and_are_cut_into_few_pieces(data_folder: Path) -> None:
    sides = []
    for name in ("train.de.gz", "train.en.gz"):
        with gzip.open(data_folder / "multi30k" / name, "rt", encoding="utf-8") as stream:
            sides.append([line.rstrip("\n") for line in islice(stream, 4000)])
    pair = learn_translation(*map(count_strings_between_spaces, sides), size=4000)
    assert pair.source.vocab_size == 4000
    for texts in sides:
        ids = pair.source.encode_batch(texts)
        assert [pair.source.decode(row) for row in ids] == texts
        words = sum(len(text.split()) for text in texts)
        assert words < sum(map(len, ids)) < 1.6 * words
        assert not {*BYTES} & {piece for row in ids for piece in pair.source.pieces(row)}


def test_chinese_and_english_come_back_as_they_were(data_folder: Path) -> None:
    path = data_folder / "zh/tatoeba/cmn-eng.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = [line.split("\t")[:2] for line in stream]
    few = [list(side) for side in zip(*rows[::20], strict=True)]
    pair = learn_translation(*map(count_strings_between_spaces, few), size=2500)
    cleaning = PairFilter(max_tokens=128, max_ratio=4)
    for english, chinese in rows[::4]:
        row = [f"{english}{chinese} {chinese}  {english}\u3000", chinese, english]
        ids = pair.target.encode_batch(row)
        assert [pair.target.decode(one) for one in ids] == row
        record = Record(text=english, text_pair=chinese, labels=None, source="", line=1)
        cleaning.keeps(record, len(ids[2]), len(ids[1]))
    # Pieces of both sides are counted, so an ideograph is not taken for a word or a letter.
    assert cleaning.dropped.total() < cleaning.pairs / 500
