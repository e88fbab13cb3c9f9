"""Plain text files to a tokenized corpus, which a later run on the same text finds again."""

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
from heedful.errors import UserError, listed
from heedful.reading import Fingerprint, fingerprint
from heedful.reading.documents import DocumentLayout, read_documents
from heedful.reading.lines import UTF8
from heedful.reading.phrases import marked_phrases, read_phrases, unmark
from heedful.settings import DataSettings
from heedful.tokens import Tokenizer
from heedful.training.progress import counted

_SMALL = 2**23
"""Bytes of text below which starting processes takes longer than tokenizing."""

_LOOKED_AT = 2**20
"""Tokens that are looked at to see whether the vocabulary fits the text."""


MANY_UNKNOWN = 0.02
"""Share of unknown tokens from which on the user is told."""


def check_settings(data: DataSettings) -> None:
    """Refuse settings that mean nothing to pre-training.

    Raises:
        UserError: naming the option.
    """
    if data.prune is not None:
        raise UserError("--prune takes heads out of a run of the same task; prune when fine-tuning")
    if data.fresh_pooler:
        raise UserError("--fresh-pooler is for fine-tuning what was pre-trained; leave it out")
    if data.long_text is not None:
        raise UserError("--long-text: sequences are cut from a text without loss; leave it out")


def check_documents(
    paths: Sequence[Path], layout: DocumentLayout, *, pairs: bool, encoding: str = UTF8
) -> None:
    """Refuse files of which no sequences can be made, before anything is written.

    Raises:
        UserError: there is no text, or only one document to make pairs of.
    """
    documents = len(list(islice(read_documents(paths, layout, encoding), 2)))
    if pairs and documents < 2:
        raise UserError(
            f"{listed(paths)}: only one document, and pairs of sentences need a "
            "second one to draw from; say what ends a document with --documents blank-line, gap, "
            "file or line, or give --objective mlm"
        )


def phrases_of(
    paths: Sequence[Path], layout: DocumentLayout, listed_in: Path | None, encoding: str = UTF8
) -> tuple[str, ...]:
    """Return the phrases of a list, or those that are marked in running text.

    Args:
        paths: plain text.
        layout: what ends a document.
        listed_in: the list; None for the marks.
        encoding: how characters are stored.

    Raises:
        UserError: a file is damaged, or there is no phrase.
    """
    if listed_in is not None:
        return tuple(read_phrases(listed_in, encoding))
    phrases = marked_phrases(read_documents(paths, layout, encoding))
    if not phrases:
        raise UserError(
            f"{listed(paths)}: no phrase is marked; write [[a phrase]], or name a list of phrases "
            "with --phrases"
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
    """Tokenize files into a folder, unless that has been done there before.

    Args:
        paths: plain text.
        layout: what ends a document.
        sentences: what ends a sentence.
        tokenizer: the model's tokenizer.
        folder: where the corpus is kept, under a name that says what it was made of.
        marked: whether marks of phrases are left out; see ``reading/phrases.py``.
        segmented: whether the words of Chinese texts are marked; see ``batches/segments.py``.
        encoding: how characters are stored.
        workers: processes; None takes one a core, and a single one for little text.

    Raises:
        UserError: a file is damaged, or the vocabulary knows nothing of its text, or half of a mark
            is missing.
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
            small = sum(path.stat().st_size for path in paths) < _SMALL
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
    """Refuse a vocabulary that knows nothing of a text.

    Raises:
        UserError: naming its files.
    """
    if unknown_share(documents, tokenizer) == 1:
        raise UserError(
            f"{listed(paths)}: the vocabulary knows no word of it; is it of another language?"
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
    """Return a name that differs where anything differs that decides what is in a corpus."""
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
    """Say how large a corpus is, and whether the vocabulary fits it."""
    unknown = unknown_share(corpus, tokenizer)
    rare = f", {unknown:.0%} of them unknown to the vocabulary" if unknown > MANY_UNKNOWN else ""
    return f"{len(corpus):,} documents of {corpus.tokens:,} tokens{rare}"


def unknown_share(corpus: Documents, tokenizer: Tokenizer) -> float:
    """Return the share of unknown tokens among a corpus's first million; 1 where it has none."""
    seen = unknown = 0
    for document in corpus:
        seen += len(document.ids)
        unknown += int(np.count_nonzero(document.ids & ~IN_WORD == tokenizer.unk_token_id))
        if seen > _LOOKED_AT:
            break
    return unknown / seen if seen else 1.0
