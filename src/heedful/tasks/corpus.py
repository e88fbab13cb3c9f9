"""Tokenize plain text files into a corpus, which later runs on the same text reuse."""

import hashlib
import json
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from heedful.batches.corpus import Corpus, Documents, tokenize_documents, write_corpus
from heedful.batches.segments import IN_WORD, segmenter_name
from heedful.batches.sentences import SentenceRule
from heedful.errors import UserError, count_of, join_names
from heedful.reading import Fingerprint, fingerprint
from heedful.reading.documents import DocumentLayout, read_documents
from heedful.reading.lines import UTF8
from heedful.reading.phrases import marked_phrases, read_phrases, unmark
from heedful.settings import DataSettings
from heedful.tokens import Tokenizer
from heedful.training.progress import counted

_MIN_PARALLEL_BYTES = 2**23
"""Bytes of text below which starting worker processes takes longer than tokenizing."""

_SAMPLE_TOKENS = 2**20
"""Number of tokens from which the share of unknown tokens is estimated."""


MANY_UNKNOWN = 0.02
"""Share of unknown tokens above which the user is warned."""


def check_settings(data: DataSettings) -> None:
    """Refuse settings that do not apply to pre-training.

    Raises:
        UserError: naming the option.
    """
    if data.prune is not None:
        raise UserError("--prune is for a run of the same task; prune when fine-tuning")
    if data.fresh_pooler:
        raise UserError("--fresh-pooler is for fine-tuning; leave it out")
    if data.long_text is not None:
        raise UserError(
            "--long-text has no effect, because pre-training reads all of a text; leave it out"
        )


def check_documents(
    paths: Sequence[Path], layout: DocumentLayout, *, pairs: bool, encoding: str = UTF8
) -> None:
    """Refuse files that yield no sequences, before anything is written.

    Raises:
        UserError: there is no text, or only one document but the objective pairs documents.
    """
    documents = len(list(islice(read_documents(paths, layout, encoding), 2)))
    if pairs and documents < 2:
        raise UserError(
            f"{join_names(paths)}: only one document, but sentence pairs need at least two; choose "
            "what ends a document with --documents blank-line, gap, file or line, or give "
            "--objective mlm"
        )


def phrases_of(
    paths: Sequence[Path], layout: DocumentLayout, listed_in: Path | None, encoding: str = UTF8
) -> tuple[str, ...]:
    """Return the phrases of a list, or the phrases marked in the text.

    Args:
        paths: plain text files.
        layout: how documents are separated.
        listed_in: the file with the list; None to use the marks.
        encoding: character encoding.

    Raises:
        UserError: a file is damaged, or there is no phrase.
    """
    if listed_in is not None:
        return tuple(read_phrases(listed_in, encoding))
    phrases = marked_phrases(read_documents(paths, layout, encoding))
    if not phrases:
        raise UserError(
            f"{join_names(paths)}: no phrase is marked; write [[a phrase]], or give a list of "
            "phrases with --phrases"
        )
    return tuple(phrases)


def open_corpus(
    paths: Sequence[Path],
    layout: DocumentLayout,
    sentences: SentenceRule,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    marked: bool = False,
    segmented: bool = False,
    encoding: str = UTF8,
    workers: int | None = None,
) -> Corpus:
    """Tokenize files into a folder, or reuse the result of an earlier run.

    Args:
        paths: plain text files.
        layout: how documents are separated.
        sentences: how sentences are separated.
        tokenizer: the model's tokenizer.
        folder: the folder of the corpus file, whose name is a hash of all inputs.
        marked: whether to remove phrase marks; see ``reading/phrases.py``.
        segmented: whether to mark the words of Chinese texts; see ``batches/segments.py``.
        encoding: character encoding.
        workers: number of processes; None for one per core, or a single one for a small text.

    Raises:
        UserError: a file is damaged; or all tokens are unknown; or a phrase mark is incomplete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = corpus_name(
        fingerprint(paths),
        layout,
        sentences,
        tokenizer,
        *(["marked"] if marked else []),
        segmented=segmented,
        encoding=encoding,
    )
    path = folder / f"{name}.arrow"
    if not path.is_file():
        if workers is None:
            small = sum(path.stat().st_size for path in paths) < _MIN_PARALLEL_BYTES
            workers = 1 if small else os.cpu_count() or 1
        documents = counted(read_documents(paths, layout, encoding), "documents read")
        documents = unmark(documents) if marked else documents
        chunks = tokenize_documents(
            documents, tokenizer, sentences, segmented=segmented, workers=workers
        )
        write_corpus(path, chunks)
    corpus = Corpus(path)
    check_known(corpus, tokenizer, paths)
    return corpus


def check_known(documents: Documents, tokenizer: Tokenizer, paths: Sequence[Path]) -> None:
    """Refuse a text of which all tokens are unknown.

    Raises:
        UserError: naming the files.
    """
    if unknown_share(documents, tokenizer) == 1:
        raise UserError(
            f"{join_names(paths)}: the vocabulary has none of its words; is it in another language?"
        )


def corpus_name(
    prints: Sequence[Fingerprint],
    layout: DocumentLayout,
    sentences: SentenceRule,
    tokenizer: Tokenizer,
    *extra: str,
    segmented: bool,
    encoding: str,
) -> str:
    """Return a hash of everything that determines the content of a corpus."""
    parts = [
        [print_.sha256 for print_ in prints],
        [layout, sentences],
        *tokenizer.identity(),
        *extra,
        *(["words", segmenter_name()] if segmented else []),
        *([encoding] if encoding != UTF8 else []),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def corpus_card(corpus: Corpus, tokenizer: Tokenizer) -> str:
    """Describe the size of a corpus, and its unknown tokens if there are many."""
    unknown = unknown_share(corpus, tokenizer)
    rare = f", {unknown:.0%} of them unknown to the vocabulary" if unknown > MANY_UNKNOWN else ""
    return f"{count_of(len(corpus), 'document')} of {count_of(corpus.tokens, 'token')}{rare}"


def unknown_share(corpus: Documents, tokenizer: Tokenizer) -> float:
    """Return the share of unknown tokens in the first million tokens; 1 if there are none."""
    num_tokens = num_unknown = 0
    for document in corpus:
        num_tokens += len(document.ids)
        num_unknown += int(np.count_nonzero(document.ids & ~IN_WORD == tokenizer.unk_token_id))
        if num_tokens > _SAMPLE_TOKENS:
            break
    return num_unknown / num_tokens if num_tokens else 1.0
