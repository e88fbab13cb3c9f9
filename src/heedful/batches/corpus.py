"""An on-disk corpus, tokenized once in parallel and read through the page cache.

Documents keep their sentence boundaries, so sequences of any length can be cut from them. A run's
memory does not grow with its corpus, except for a few array views per megabyte of text.

Shapes: T tokens of a document, S sentences of a document.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from heedful.batches.segments import IN_WORD, continuation_mask, is_chinese, load_segmenter
from heedful.batches.sentences import SentenceRule, split_sentences
from heedful.batches.store import block_writer, open_blocks, to_lists, write_blocks
from heedful.batches.workers import pool, result_of
from heedful.reading.documents import Document
from heedful.tokens import Tokenizer

_CHUNK_CHARACTERS = 2**19
"""Characters of text to tokenize and store as one chunk."""

_QUEUED_CHUNKS = 2
"""Chunks queued per worker: enough to keep it busy, few enough to keep memory flat."""

_SCHEMA = pa.schema(
    [
        pa.field("ids", pa.large_list(pa.int32()), nullable=False),
        pa.field("ends", pa.large_list(pa.int32()), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenizedDocument:
    """One document as token ids, without special tokens."""

    ids: NDArray[np.int32]
    """(T,), T at least 1. Ids may have the bit `heedful.batches.segments.IN_WORD` set."""
    ends: NDArray[np.int32]
    """(S,) The end of each sentence in ``ids``; the last is T."""


class Documents(Protocol):
    """A sequence of tokenized documents to cut training sequences from."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> TokenizedDocument: ...

    def __iter__(self) -> Iterator[TokenizedDocument]: ...


def tokenize_documents(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    rule: SentenceRule,
    *,
    segmented: bool = False,
    workers: int,
) -> Iterator[list[TokenizedDocument]]:
    """Tokenize documents in order, a chunk at a time. Documents without tokens are left out.

    Special tokens in a text, such as a ``[SEP]`` in an article about BERT, become unknown tokens.
    Otherwise the model would take them for real special tokens.

    Args:
        documents: the documents, streamed.
        tokenizer: the model's tokenizer.
        rule: how to split a document into sentences.
        segmented: whether to mark the ids that continue a word of a Chinese sentence with the bit
            `heedful.batches.segments.IN_WORD`.
        workers: the number of processes. 1 uses only this process. The result is the same.
    """
    chunks = text_chunks(documents)
    if workers == 1:
        for chunk in chunks:
            yield tokenize_texts(chunk, tokenizer, rule, segmented)
        return
    with pool(workers, _start_worker, (tokenizer, rule, segmented)) as processes:
        pending: deque[Future[list[TokenizedDocument]]] = deque()
        for chunk in chunks:
            pending.append(processes.submit(_tokenize_in_worker, chunk))
            if len(pending) > _QUEUED_CHUNKS * workers:
                yield result_of(pending.popleft())
        while pending:
            yield result_of(pending.popleft())


def text_chunks(documents: Iterable[Document], *, min_documents: int = 1) -> Iterator[list[str]]:
    """Group documents into chunks, each with enough characters and documents.

    A last chunk with too few documents is merged into the chunk before it. If there are fewer than
    ``min_documents`` documents in total, all are in one chunk.
    """
    held_back: list[str] = []
    chunk: list[str] = []
    characters = 0
    for document in documents:
        chunk.append(document.text)
        characters += len(document.text)
        if len(chunk) < min_documents:
            continue
        if held_back:
            yield held_back
            held_back = []
        if characters >= _CHUNK_CHARACTERS:
            held_back, chunk, characters = chunk, [], 0
    if held_back or chunk:
        yield held_back + chunk


_worker: tuple[Tokenizer, SentenceRule, bool] | None = None
"""Tokenizer and options of a worker process. They are sent once, not with each chunk."""


def _start_worker(tokenizer: Tokenizer, rule: SentenceRule, segmented: bool) -> None:
    global _worker
    _worker = tokenizer, rule, segmented


def _tokenize_in_worker(texts: Sequence[str]) -> list[TokenizedDocument]:
    assert _worker is not None
    return tokenize_texts(texts, *_worker)


def tokenize_texts(
    texts: Sequence[str], tokenizer: Tokenizer, rule: SentenceRule, segmented: bool
) -> list[TokenizedDocument]:
    """Tokenize the documents of a chunk; see `tokenize_documents`."""
    special = np.array(tokenizer.all_special_ids)
    documents = []
    split_texts = [split_sentences(text, rule) for text in texts]
    # One call for all sentences: a tokenizer is faster on larger batches.
    all_rows = iter(tokenizer.encode_batch(list(chain.from_iterable(split_texts))))
    for texts_of_document in split_texts:
        rows = list(islice(all_rows, len(texts_of_document)))
        sentences = [row for row in rows if row]
        if not sentences:
            continue
        ids = np.fromiter(chain.from_iterable(sentences), np.int32)
        ids[np.isin(ids, special)] = tokenizer.unk_token_id
        if segmented:
            ids[_in_words(texts_of_document, rows, tokenizer)] |= IN_WORD
        ends = np.cumsum([len(row) for row in sentences], dtype=np.int32)
        documents.append(TokenizedDocument(ids=ids, ends=ends))
    return documents


def _in_words(
    sentences: Sequence[str], rows: Sequence[Sequence[int]], tokenizer: Tokenizer
) -> NDArray[np.bool_]:
    """Return which tokens continue a word of a Chinese sentence. Shape (T,)."""
    parts = [np.zeros(len(row), np.bool_) for row in rows]
    for index, sentence in enumerate(sentences):
        if is_chinese(sentence):
            offsets = tokenizer.pieces(sentence).offsets
            parts[index] = continuation_mask(sentence, offsets, load_segmenter()(sentence))
    return np.concatenate(parts)


def write_corpus(path: Path, chunks: Iterable[Sequence[TokenizedDocument]]) -> None:
    """Write tokenized documents to a file atomically.

    Raises:
        UserError: the file cannot be written, such as when the disk is full.
    """
    write_blocks(path, _SCHEMA, (_to_arrow(chunk) for chunk in chunks if chunk))


def tee_corpus(
    path: Path, chunks: Iterable[list[TokenizedDocument]]
) -> Iterator[list[TokenizedDocument]]:
    """Yield each chunk and write it to a file as a block. The file appears after the last chunk.

    Raises:
        UserError: the file cannot be written, such as when the disk is full.
    """
    with block_writer(path, _SCHEMA) as write:
        for chunk in chunks:
            write(_to_arrow(chunk))
            yield chunk


def _to_arrow(chunk: Sequence[TokenizedDocument]) -> pa.RecordBatch:
    if not chunk:
        return pa.RecordBatch.from_pylist([], schema=_SCHEMA)
    columns = [
        to_lists([document.ids for document in chunk], np.int32),
        to_lists([document.ends for document in chunk], np.int32),
    ]
    return pa.record_batch(columns, schema=_SCHEMA)


class Corpus:
    """A file of tokenized documents, opened for reading.

    Attributes:
        tokens: total number of tokens in all documents.

    Raises:
        UserError: the file is missing, damaged, or not written by `write_corpus`.
    """

    def __init__(self, path: Path) -> None:
        self._blocks = [
            [(column.values.to_numpy(), column.offsets.to_numpy()) for column in block.columns]
            for block in open_blocks(path, _SCHEMA)
        ]
        sizes = [len(offsets) - 1 for (_, offsets), _ in self._blocks]
        self._firsts = list(accumulate(sizes, initial=0))
        self.tokens = sum(len(ids) for (ids, _), _ in self._blocks)

    def __len__(self) -> int:
        return self._firsts[-1]

    def __iter__(self) -> Iterator[TokenizedDocument]:
        return map(self.__getitem__, range(len(self)))

    def chunks(self) -> Iterator[list[TokenizedDocument]]:
        """Yield the documents of each block."""
        for first, end in pairwise(self._firsts):
            yield [self[index] for index in range(first, end)]

    def __getitem__(self, index: int) -> TokenizedDocument:
        if not 0 <= index < len(self):
            raise IndexError(f"document {index} of {len(self)}")
        block = bisect_right(self._firsts, index) - 1
        row = index - self._firsts[block]
        ids, ends = (
            values[offsets[row] : offsets[row + 1]] for values, offsets in self._blocks[block]
        )
        return TokenizedDocument(ids=ids, ends=ends)
