"""Streamed pre-training: turn shards of plain text into sequences, chunk by chunk."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from heedful.batches import Example
from heedful.batches.corpus import (
    Corpus,
    TokenizedDocument,
    tee_corpus,
    text_chunks,
    tokenize_texts,
)
from heedful.batches.packed import Packed, pack
from heedful.batches.sentence_pairs import Frame
from heedful.batches.sentences import SentenceRule
from heedful.batches.stream import derived_seed
from heedful.errors import UserError, count_of
from heedful.reading.compressed import compression_of
from heedful.reading.documents import DocumentLayout, read_documents
from heedful.reading.lines import UTF8, source_name
from heedful.reading.shards import shard_fingerprints
from heedful.settings import PretrainSettings, TrainSettings
from heedful.task import Say, Shards, Start
from heedful.tasks.corpus import check_known, corpus_name
from heedful.tasks.objectives.objective import Objective
from heedful.tokens import PairLayout, Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardedText:
    """Shards of plain text, and the settings for cutting sequences from them."""

    shards: tuple[Path, ...]
    layout: DocumentLayout
    sentences: SentenceRule
    tokenizer: Tokenizer
    objective: Objective
    """Cuts sequences from documents."""
    frame: Frame
    """Special tokens and length of the sequences."""
    seed: int
    segmented: bool = False
    """Whether words of Chinese texts are marked; see ``batches/segments.py``."""
    encoding: str = UTF8
    cache: Path | None = None
    """Folder that caches the tokens of each shard; None for no cache."""

    def opened(self, options: PretrainSettings, batch_size: int, say: Say) -> Shards:
        """Return the shards as a stream, after checking the first chunk.

        Raises:
            UserError: all tokens of the chunk are unknown; or see `chunks`.
        """
        texts = next(self.texts(self.shards[0]))
        documents = self._tokenize(texts)
        check_known(documents, self.tokenizer, self.shards[:1])
        examples = pack(list(self._sequences(documents, 0, 0, 0)))
        if line := self.objective.warning(examples.labels):
            say(line)
        if all(compression_of(shard) is None and shard.is_file() for shard in self.shards):
            size = sum(shard.stat().st_size for shard in self.shards)
            share = size / sum(len(text.encode()) for text in texts)
            steps = round(share * len(examples) / batch_size)
            say(f"an epoch has about {count_of(steps, 'step')}")
        return Shards(
            count=len(self.shards),
            side_by_side=options.open_shards,
            buffer=options.shuffle_buffer,
            chunks=self.chunks,
            processes=options.workers,
        )

    def chunks(self, shard: int, epoch: int, first: int) -> Iterator[Packed]:
        """Yield the sequences of a shard chunk by chunk, starting at chunk ``first``.

        The random choices depend on the seed, the epoch, the shard and the chunk.

        Raises:
            UserError: the shard is damaged, or has only one document but pairs need two.
        """
        for chunk, documents in enumerate(self.tokenized(self.shards[shard], first), first):
            has_enough = len(documents) >= self._least  # documents without tokens were dropped
            yield pack(list(self._sequences(documents, shard, chunk, epoch)) if has_enough else [])

    def tokenized(self, shard: Path, first: int = 0) -> Iterator[list[TokenizedDocument]]:
        """Yield the tokenized documents of a shard chunk by chunk, starting at chunk ``first``.

        Raises:
            UserError: see `chunks`.
        """
        if self.cache is None:
            yield from map(self._tokenize, islice(self.texts(shard), first, None))
            return
        path = self._cached(shard)
        if path.is_file():
            chunks = Corpus(path).chunks()
        else:
            self.cache.mkdir(parents=True, exist_ok=True)
            chunks = tee_corpus(path, map(self._tokenize, self.texts(shard)))
        yield from islice(chunks, first, None)

    def texts(self, shard: Path) -> Iterator[list[str]]:
        """Yield the chunks of a shard as texts.

        Raises:
            UserError: see `chunks`.
        """
        documents = read_documents([shard], self.layout, self.encoding)
        for chunk in text_chunks(documents, min_documents=self._least):
            if len(chunk) < self._least:
                raise UserError(
                    f"{source_name(shard)}: only one document, but sentence pairs need at least "
                    "two in each shard; choose what ends a document with --documents, or give "
                    "--objective mlm"
                )
            yield chunk

    @property
    def _least(self) -> int:
        """Minimum number of documents in a chunk: 2 if the objective pairs documents, else 1."""
        return 2 if self.objective.pairs_documents else 1

    def _sequences(
        self, documents: list[TokenizedDocument], shard: int, chunk: int, epoch: int
    ) -> Iterator[Example]:
        seed = derived_seed(self.seed, shard, chunk)
        return self.objective.sequences(documents, self.frame, seed=seed, epoch=epoch)

    def _tokenize(self, texts: list[str]) -> list[TokenizedDocument]:
        return tokenize_texts(texts, self.tokenizer, self.sentences, self.segmented)

    def _cached(self, shard: Path) -> Path:
        """Return the path of the cached tokens of a shard."""
        assert self.cache is not None
        name = corpus_name(
            shard_fingerprints([shard]),
            self.layout,
            self.sentences,
            self.tokenizer,
            f"chunks of {self._least}",
            segmented=self.segmented,
            encoding=self.encoding,
        )
        return self.cache / f"{name}.arrow"


def frame_of(start: Start) -> Frame:
    """Return the special tokens and the length of a run's sequences."""
    tokenizer, layout = start.tokenizer, start.tokenizer.layout
    if layout == layout.without_special_tokens():  # use those that separate texts
        layout = PairLayout(begin=(tokenizer.cls_token_id,), end=(tokenizer.sep_token_id,))
    # A convolution mixes neighbouring tokens across a masked boundary, as in the reference.
    has_convolution = getattr(start.model.config, "conv_kernel_size", 0) > 0
    return Frame(layout=layout, max_length=start.max_length, one_text=has_convolution)


def check_stream(options: PretrainSettings, training: TrainSettings) -> None:
    """Refuse settings that streaming does not support.

    Raises:
        UserError: naming the option.
    """
    if training.steps is None:
        raise UserError(
            "--stream: give --steps, because the length of an epoch is unknown, and "
            "the learning rate falls to 0 at the last"
        )
    if training.batch_tokens == "auto":
        raise UserError("--stream: give --batch-tokens a number; auto measures the longest example")
    if options.shuffle_buffer < training.batch_size:
        raise UserError(
            f"--shuffle-buffer {options.shuffle_buffer}: must hold --batch-size "
            f"{training.batch_size} sequences at least"
        )
