"""Running text that is read by stream: shards to sequences, chunk by chunk."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from heedful.batches import Example
from heedful.batches.corpus import Corpus, Tokenized, kept_corpus, text_chunks, tokenize_texts
from heedful.batches.packed import Packed, pack
from heedful.batches.sentence_pairs import Frame
from heedful.batches.sentences import SentenceRule
from heedful.batches.stream import drawn_from
from heedful.errors import UserError
from heedful.reading.compressed import compression_of
from heedful.reading.documents import DocumentLayout, read_documents
from heedful.reading.lines import UTF8, source_name
from heedful.reading.shards import shard_prints
from heedful.settings import PretrainSettings, TrainSettings
from heedful.task import Say, Shards, Start
from heedful.tasks.corpus import check_known, corpus_name
from heedful.tasks.objectives.objective import Objective
from heedful.tokens import PairLayout, Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardedText:
    """Shards of running text, and how sequences are cut from them."""

    shards: tuple[Path, ...]
    layout: DocumentLayout
    sentences: SentenceRule
    tokenizer: Tokenizer
    objective: Objective
    """Cuts sequences from documents."""
    frame: Frame
    """The form of these."""
    seed: int
    segmented: bool = False
    """Whether the words of Chinese texts are marked; see ``batches/segments.py``."""
    encoding: str = UTF8
    cache: Path | None = None
    """Folder that keeps the tokens of each shard; None keeps none."""

    def opened(self, options: PretrainSettings, batch_size: int, say: Say) -> Shards:
        """Return what a run reads, after a look at its beginning.

        Raises:
            UserError: the vocabulary knows nothing of it; or see `chunks`.
        """
        texts = next(self.texts(self.shards[0]))
        documents = self._tokenize(texts)
        check_known(documents, self.tokenizer, self.shards[:1])
        examples = pack(list(self._sequences(documents, 0, 0, 0)))
        if line := self.objective.doubt(examples.labels):
            say(line)
        if all(compression_of(shard) is None and shard.is_file() for shard in self.shards):
            size = sum(shard.stat().st_size for shard in self.shards)
            share = size / sum(len(text.encode()) for text in texts)
            say(f"an epoch has about {share * len(examples) / batch_size:,.0f} steps")
        return Shards(
            count=len(self.shards),
            side_by_side=options.open_shards,
            buffer=options.shuffle_buffer,
            chunks=self.chunks,
            processes=options.workers,
        )

    def chunks(self, shard: int, epoch: int, first: int) -> Iterator[Packed]:
        """Yield the sequences of the chunks of a shard, from a chunk on.

        What is drawn depends on the seed, the epoch, the shard and the chunk.

        Raises:
            UserError: the shard is damaged, or has one document where pairs need two.
        """
        for chunk, documents in enumerate(self.tokenized(self.shards[shard], first), first):
            some = len(documents) >= self._least  # but for those that hold no token
            yield pack(list(self._sequences(documents, shard, chunk, epoch)) if some else [])

    def tokenized(self, shard: Path, first: int = 0) -> Iterator[list[Tokenized]]:
        """Yield the documents of the chunks of a shard, from a chunk on.

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
            chunks = kept_corpus(path, map(self._tokenize, self.texts(shard)))
        yield from islice(chunks, first, None)

    def texts(self, shard: Path) -> Iterator[list[str]]:
        """Yield the chunks of a shard as texts.

        Raises:
            UserError: see `chunks`.
        """
        documents = read_documents([shard], self.layout, self.encoding)
        for chunk in text_chunks(documents, least=self._least):
            if len(chunk) < self._least:
                raise UserError(
                    f"{source_name(shard)}: only one document, and pairs of sentences need a "
                    "second one of the same shard to draw from; say what ends a document with "
                    "--documents, or give --objective mlm"
                )
            yield chunk

    @property
    def _least(self) -> int:
        """Documents of a chunk: pairs are made of two."""
        return 2 if self.objective.mixes_documents else 1

    def _sequences(
        self, documents: list[Tokenized], shard: int, chunk: int, epoch: int
    ) -> Iterator[Example]:
        seed = drawn_from(self.seed, shard, chunk)
        return self.objective.sequences(documents, self.frame, seed=seed, epoch=epoch)

    def _tokenize(self, texts: list[str]) -> list[Tokenized]:
        return tokenize_texts(texts, self.tokenizer, self.sentences, self.segmented)

    def _cached(self, shard: Path) -> Path:
        """Return the file that keeps the tokens of a shard."""
        assert self.cache is not None
        name = corpus_name(
            shard_prints([shard]),
            self.layout,
            self.sentences,
            self.tokenizer,
            f"chunks of {self._least}",
            segmented=self.segmented,
            encoding=self.encoding,
        )
        return self.cache / f"{name}.arrow"


def frame_of(start: Start) -> Frame:
    """Return the form of the sequences that a run learns from."""
    tokenizer, layout = start.tokenizer, start.tokenizer.layout
    if layout == layout.bare():  # no tokens stand around texts, so those that part them do
        layout = PairLayout(begin=(tokenizer.cls_token_id,), end=(tokenizer.sep_token_id,))
    # A convolution sees its neighbours, whatever a mask keeps apart; in the reference, too.
    convolves = getattr(start.model.config, "conv_kernel_size", 0) > 0
    return Frame(layout=layout, max_length=start.max_length, one_text=convolves)


def check_stream(options: PretrainSettings, training: TrainSettings) -> None:
    """Refuse settings that a stream cannot follow.

    Raises:
        UserError: naming the option.
    """
    if training.steps is None:
        raise UserError(
            "--stream: give --steps, for nobody knows how many an epoch has before its end, and "
            "the learning rate falls to 0 at the last"
        )
    if training.batch_tokens == "auto":
        raise UserError("--stream: give --batch-tokens a number; auto measures the longest example")
    if options.shuffle_buffer < training.batch_size:
        raise UserError(
            f"--shuffle-buffer {options.shuffle_buffer}: must hold --batch-size "
            f"{training.batch_size} sequences at least"
        )
