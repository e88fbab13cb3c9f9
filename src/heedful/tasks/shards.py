"""Running text that is read by stream: shards to sequences, chunk by chunk."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from heedful.batches.corpus import text_chunks, tokenize_texts
from heedful.batches.packed import Packed, pack
from heedful.batches.sentence_pairs import Frame
from heedful.batches.sentences import SentenceRule
from heedful.batches.stream import drawn_from
from heedful.errors import UserError
from heedful.reading.documents import DocumentLayout, read_documents
from heedful.reading.lines import UTF8, source_name
from heedful.settings import PretrainSettings, TrainSettings
from heedful.task import Shards
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
    max_length: int
    seed: int
    segmented: bool = False
    """Whether the words of Chinese texts are marked; see ``batches/segments.py``."""
    encoding: str = UTF8

    def opened(self, options: PretrainSettings) -> Shards:
        """Return what a run reads."""
        return Shards(
            count=len(self.shards),
            side_by_side=options.open_shards,
            buffer=options.shuffle_buffer,
            chunks=self.chunks,
            card=f"{len(self.shards):,} shards, read by stream",
        )

    def chunks(self, shard: int, epoch: int, first: int) -> Iterator[Packed]:
        """Yield the sequences of the chunks of a shard, from a chunk on.

        What is drawn depends on the seed, the epoch, the shard and the chunk.

        Raises:
            UserError: the shard is damaged, or has one document where pairs need two.
        """
        documents = read_documents([self.shards[shard]], self.layout, self.encoding)
        frame = frame_of(self.tokenizer, self.max_length)
        least = 2 if self.objective.mixes_documents else 1  # pairs are of two in a chunk
        texts = text_chunks(documents, least=least)
        for number, chunk in islice(enumerate(texts), first, None):
            if len(chunk) < least:
                raise UserError(
                    f"{source_name(self.shards[shard])}: only one document, and pairs of sentences "
                    "need a second one of the same shard to draw from; say what ends a document "
                    "with --documents, or give --objective mlm"
                )
            tokenized = tokenize_texts(chunk, self.tokenizer, self.sentences, self.segmented)
            if len(tokenized) < least:
                yield pack([])
                continue
            seed = drawn_from(self.seed, shard, number)
            yield pack(list(self.objective.sequences(tokenized, frame, seed=seed, epoch=epoch)))


def frame_of(tokenizer: Tokenizer, max_length: int) -> Frame:
    """Return the form of sequences."""
    layout = tokenizer.layout
    if layout == layout.bare():  # no tokens stand around texts, so those that part them do
        layout = PairLayout(begin=(tokenizer.cls_token_id,), end=(tokenizer.sep_token_id,))
    return Frame(layout=layout, max_length=max_length)


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
