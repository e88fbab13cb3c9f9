"""Caches are bounded in number and size, and modules load only when needed."""

import pickle
import random
import string
import subprocess
import sys
from collections.abc import Iterator, Sized

import pytest
from tests.tiny import SPECIAL

from heedful.tokens import BertTokenizer, Vocabulary, encoder, normalize, wordpiece


def _texts(count: int) -> Iterator[str]:
    random_ = random.Random(0)
    for at in range(count):
        word = "".join(random_.choices(string.ascii_letters + ".", k=random_.randrange(1, 90)))
        yield f"{at} {word} {chr(0x20 + at * 7)}"


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordpiece, "MAX_CHUNKS", 300)
    monkeypatch.setattr(wordpiece, "MAX_LOCATED_CHUNKS", 200)
    monkeypatch.setattr(wordpiece, "MAX_WORDS", 100)
    monkeypatch.setattr(normalize, "MAX_TABLE", 50)
    ours = BertTokenizer(Vocabulary([*SPECIAL, *string.ascii_letters]))
    memory = ours._encoder
    most = [0, 0, 0, 0]
    for text in _texts(3_000):
        ours.encode_batch([text])
        ours.pieces(text)
        fold = memory._normalizer._fold
        held: list[Sized] = [memory._chunk_ids, memory._chunk_pieces, memory._words, fold]
        most = [max(old, len(new)) for old, new in zip(most, held, strict=True)]
        assert max(map(len, memory._chunk_ids), default=0) <= encoder.MAX_CHUNK
        assert max(map(len, memory._chunk_pieces), default=0) <= encoder.MAX_CHUNK
    assert most == [300, 200, 100 + 57, 50]


def test_long_words_and_chunks_are_not_remembered() -> None:
    ours = BertTokenizer(Vocabulary(SPECIAL))
    words = len(ours._encoder._words)
    ours.encode_batch(["x" * 101, "y" * 65])
    ours.pieces("z" * 65)
    assert len(ours._encoder._chunk_ids) == len(ours._encoder._chunk_pieces) == 0
    assert len(ours._encoder._words) == words + 2  # "y..." and "z...", shorter than 101


def test_a_tokenizer_goes_to_another_process() -> None:
    ours = BertTokenizer(Vocabulary([*SPECIAL, "a", "##b"]), never_split=["c"])
    texts = ["ab [MASK] ä", "c a"]
    expected = ours.encode_batch(texts), [ours.pieces(text) for text in texts]
    again = pickle.loads(pickle.dumps(ours))
    assert (again.encode_batch(texts), [again.pieces(text) for text in texts]) == expected
    assert again.encode_batch(["ba"]) == ours.encode_batch(["ba"])


def test_neither_torch_nor_numpy_is_imported() -> None:
    code = (
        "import sys; from heedful.tokens import BertTokenizer, Vocabulary;"
        "t = BertTokenizer(Vocabulary(['[PAD]', '[UNK]', '[CLS]', '[SEP]']));"
        "t(['a b'], padding=True, return_offsets_mapping=True);"
        "print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
