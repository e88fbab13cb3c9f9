import sys
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.tiny import SPECIAL, byte_level_tokenizer

from heedful import BertTokenizer, UserError
from heedful.batches import corpus as corpus_module
from heedful.batches.corpus import Corpus, tokenize_documents, write_corpus
from heedful.batches.segments import IN_WORD, is_chinese, load_segmenter
from heedful.batches.sentences import SentenceRule, split_sentences
from heedful.reading.documents import Document, read_documents
from heedful.tokens.vocabulary import Vocabulary

TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL, *"abcdefg."]))
UNKNOWN = 1


def documents(texts: list[str]) -> Iterator[Document]:
    return (Document(text=text, source="a.txt", line=1) for text in texts)


def made(path: Path, texts: list[str], *, rule: SentenceRule = "line", workers: int = 1) -> Corpus:
    write_corpus(path, tokenize_documents(documents(texts), TOKENIZER, rule, workers=workers))
    return Corpus(path)


def test_documents_keep_their_sentences(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c.arrow", ["a b\nc", "d e. F g."], rule="punctuation")
    assert [document.ids.tolist() for document in corpus] == [[5, 6, 7], [8, 9, 12, 10, 11, 12]]
    assert [document.ends.tolist() for document in corpus] == [[3], [3, 6]]
    assert (len(corpus), corpus.tokens) == (2, 9)
    lines = made(tmp_path / "l.arrow", ["a b\nc", "d e. F g."])
    assert [document.ends.tolist() for document in lines] == [[2, 3], [6]]
    with pytest.raises(IndexError):
        corpus[2]


def test_sentences_have_the_tokens_that_they_have_in_running_text(tmp_path: Path) -> None:
    tokenizer = byte_level_tokenizer()
    for text in ("a. A low 北。er! low\n\nlow", "low"):
        chunks = tokenize_documents(documents([text]), tokenizer, "punctuation", workers=1)
        ((document,),) = chunks
        assert document.ids.tolist() == tokenizer.encode_batch([" ".join(text.split())])[0]


def test_what_has_no_token_is_left_out(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c.arrow", ["\u200b", "a\n\u200b\nb", "\ufffd"])
    assert [document.ids.tolist() for document in corpus] == [[5, 6]]
    assert corpus[0].ends.tolist() == [1, 2]


def test_marks_in_a_text_are_not_taken_for_what_they_mean(tmp_path: Path) -> None:
    corpus = made(tmp_path / "c.arrow", ["a [SEP] b [MASK] [CLS] zzz"])
    assert corpus[0].ids.tolist() == [5, UNKNOWN, 6, UNKNOWN, UNKNOWN, UNKNOWN]


def test_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "_CHUNK_CHARACTERS", 40)
    texts = [" ".join("abcdefg"[number % 7 :]) + "\nc" for number in range(100)]
    alone = made(tmp_path / "1.arrow", texts)
    made(tmp_path / "2.arrow", texts, workers=2)
    assert (tmp_path / "1.arrow").read_bytes() == (tmp_path / "2.arrow").read_bytes()
    assert len(alone) == 100
    assert [len(document.ids) for document in alone] == [8 - number % 7 for number in range(100)]


def test_memory_does_not_grow_with_the_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_module, "_CHUNK_CHARACTERS", 2**14)

    def peak(count: int) -> int:
        path = tmp_path / f"{count}.arrow"
        tracemalloc.start()
        texts = (Document(text="a b c d e f g\n" * 8, source="", line=1) for _ in range(count))
        write_corpus(path, tokenize_documents(texts, TOKENIZER, "line", workers=1))
        assert Corpus(path).tokens == 56 * count
        _, high = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return high

    peak(500)  # what is remembered of the vocabulary
    assert peak(5000) < 1.2 * peak(500)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.arrow"
    made(path, ["a"])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"c\.arrow: not a file of examples, or damaged"):
        Corpus(path)
    with pytest.raises(UserError, match="missing"):
        Corpus(tmp_path / "missing.arrow")


def test_ids_are_narrow(tmp_path: Path) -> None:
    assert made(tmp_path / "c.arrow", ["a b"])[0].ids.dtype == np.int32


CHINESE = [
    "\u4eca\u5929\u53bb\u5317\u4eac\u5927\u5b66\u3002a bc\n\n\u4eca\u5929 cab",
    "a bc",
    "\u304b\u5929",
]


def segmented(path: Path, tokenizer: BertTokenizer) -> Corpus:
    chunks = tokenize_documents(
        documents(CHINESE), tokenizer, "punctuation", segmented=True, workers=1
    )
    write_corpus(path, chunks)
    return Corpus(path)


def test_words_of_chinese_sentences_are_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starts(text: str) -> list[int]:
        return [at for at, one in enumerate(text) if one not in "\u5929\u4eac\u5927\u5b66"]

    monkeypatch.setattr(corpus_module, "load_segmenter", lambda: starts)
    characters = "\u4eca\u5929\u53bb\u5317\u4eac\u5927\u5b66\u3002\u304b"
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL, *"abc", "##b", "##c", *characters]))
    marked = [
        "".join(
            ("+" if token & IN_WORD else "") + tokenizer.vocabulary.token(token & ~IN_WORD)
            for token in document.ids.tolist()
        )
        for document in segmented(tmp_path / "c.arrow", tokenizer)
    ]
    assert marked == [
        "\u4eca+\u5929\u53bb\u5317+\u4eac+\u5927+\u5b66\u3002ab##c\u4eca+\u5929[UNK]",
        "ab##c",
        "\u304b\u5929",
    ]


def test_a_dot_between_the_parts_of_a_name_is_no_kana() -> None:
    for dot in "\u30fb\uff65\u00b7":
        assert is_chinese(f"\u7ea6\u7ff0{dot}\u53f2\u5bc6\u65af")
    assert not is_chinese("\u6771\u4eac\u30bf\u30ef\u30fc")


def test_words_need_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    load_segmenter.cache_clear()
    with pytest.raises(UserError, match=r"words of Chinese texts need jieba: pip install"):
        segmented(tmp_path / "c.arrow", TOKENIZER)


def test_words_of_a_novel(data_folder: Path) -> None:
    pytest.importorskip("jieba", reason="needs jieba, of the extra chinese")
    load_segmenter.cache_clear()
    (document, *_) = read_documents([data_folder / "zh/novels/sanguo.txt.gz"], "file")
    for sentence in split_sentences(document.text[:20_000]):
        starts = load_segmenter()(sentence)
        ends = [*starts[1:], len(sentence)]
        words = [sentence[start:end] for start, end in zip(starts, ends, strict=True)]
        assert "".join(words) == sentence
    assert {"\u8bf8\u845b\u4eae"} == {
        word for word in [*cut("\u8bf8\u845b\u4eae\u51fa\u5c71")] if len(word) == 3
    }


def cut(text: str) -> list[str]:
    starts = [*load_segmenter()(text), len(text)]
    return [text[start:end] for start, end in pairwise(starts)]
