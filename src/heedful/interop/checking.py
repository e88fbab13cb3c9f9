"""Whether another program computes what heedful does: batches to compare, and the comparison.

Shapes: B batch, C choices, S length, T target length.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful import __version__
from heedful.errors import UserError
from heedful.interop.source import Source
from heedful.models import BertEncoderDecoder, RnnSearch, Transformer
from heedful.models.loading import load_model

TOLERANCE = 1e-4
"""How far outputs may differ, as a share of the largest of them, or of 1 if that is more. Float32
that is added up in another order differs by about a hundredth of that."""

COARSE = 1.0
"""The same of weights in 8 bits. How much these cost is for data to say, but what is further off
than the largest output is broken."""

_LENGTHS = ((5,), (4, 9, 2), (17, 3, 8, 12, 6))
"""The lengths of the texts of each batch, besides one text as long as the model reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """What a comparison came to."""

    consumer: str
    """What computed the same, and its version."""
    batches: int
    difference: float
    """The largest, as a share of the largest output or of 1."""
    int8: float | None = None
    """The same of weights in 8 bits, where they were asked for."""

    def __str__(self) -> str:
        coarse = "" if self.int8 is None else f", in 8 bits by at most {self.int8:.1e}"
        return (
            f"checked in {self.consumer} on {self.batches} batches: "
            f"outputs differ by at most {self.difference:.1e}{coarse}"
        )


def sample_batches(source: Source) -> Iterator[dict[str, Tensor]]:
    """Yield batches of several sizes and lengths, with padding, as the model's ``forward`` takes.

    Each has ``input_ids`` and ``attention_mask``, int64, (B, S) or of choices (B, C, S), and where
    the model knows them ``token_type_ids``; of a model that reads and writes, also
    ``decoder_input_ids``, (B, T). Of a model that reads pictures it is ``pixel_values``, (B,
    channels, rows, columns).
    """
    model, generator = source.model, torch.Generator().manual_seed(0)
    if source.sees:
        shape = (source.tokenizer.channels, *source.tokenizer.size)
        for size in (1, 3, 5):
            yield {"pixel_values": torch.rand(size, *shape, generator=generator) * 2 - 1}
        return
    longest = min(source.record.max_length, model.max_positions)
    for lengths in (*_LENGTHS, (longest,)):
        rows = [min(length, longest) for length in lengths]
        batch = _texts(source, rows, generator)
        if source.record.task == "choose":
            batch = {name: torch.stack([rows, rows.flip(0)], 1) for name, rows in batch.items()}
        if isinstance(model, BertEncoderDecoder | Transformer | RnnSearch):
            batch["decoder_input_ids"] = _target_ids(model, rows[::-1], generator)
        yield batch


def reads_types(source: Source) -> bool:
    """Tell whether what reads the texts of a run is also given ``token_type_ids``."""
    layout = getattr(source.tokenizer, "layout", None)  # a translator's tokenizer has none
    if layout is None or not layout.tells_types:
        return False
    if layout.tells_alone:  # of a GPT-2, which is told them where it decides, not where it writes
        return not hasattr(source.model, "generate")
    config = _reading_config(source)
    return getattr(config, "type_vocab_size", 0) > 1 and not getattr(config, "is_decoder", False)


def _texts(source: Source, lengths: Sequence[int], generator: torch.Generator) -> dict[str, Tensor]:
    config, pad_id = _reading_config(source), source.tokenizer.pad_token_id
    ids = torch.randint(config.vocab_size, (len(lengths), max(lengths)), generator=generator)
    ids[ids == pad_id] = (pad_id + 1) % config.vocab_size
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]  # (B, S)
    layout = getattr(source.tokenizer, "layout", None)
    if layout is not None and layout.pads_left:
        mask = mask.flip(1)
    batch = {"input_ids": ids.masked_fill(~mask, pad_id), "attention_mask": mask.long()}
    if reads_types(source):
        second = mask & (torch.arange(max(lengths)) > max(lengths) // 2)
        batch["token_type_ids"] = second.long()
    return batch


def _reading_config(source: Source) -> Any:
    config = source.model.config
    return config.encoder if isinstance(source.model, BertEncoderDecoder) else config


def _target_ids(
    model: BertEncoderDecoder | Transformer | RnnSearch,
    lengths: Sequence[int],
    generator: torch.Generator,
) -> Tensor:
    """Return texts to write without padding, as long as the longest may be. Shape (B, T)."""
    if isinstance(model, BertEncoderDecoder):
        config, most = model.decoder.config, model.decoder.max_positions
        size, pad_id = config.vocab_size, config.pad_token_id
    else:
        size, pad_id = model.config.decoder_vocab_size, model.config.pad_token_id
        most = model.max_positions
    ids = torch.randint(size, (len(lengths), min(max(lengths), most)), generator=generator)
    return ids if pad_id is None else ids.where(ids != pad_id, (pad_id + 1) % size)


@torch.inference_mode()
def outputs_of(source: Source, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what the model computes for a batch, by the names of its output."""
    output = source.model(**batch)
    return {name: output[name] for name in output if isinstance(output[name], Tensor)}


class Comparison:
    """Compares what a program computes for some batches with what the model does.

    Args:
        source: has the model.
        consumer: the program and its version.
        tolerance: how far outputs may differ.
    """

    def __init__(self, source: Source, consumer: str, *, tolerance: float = TOLERANCE) -> None:
        self._source = source
        self._consumer = consumer
        self._tolerance = tolerance
        self._batches = 0
        self._largest = 0.0

    def add(
        self,
        batch: Mapping[str, Tensor],
        expected: Mapping[str, Tensor],
        actual: Mapping[str, Tensor],
    ) -> None:
        """Compare the outputs for a batch.

        Args:
            batch: what both were given. Of outputs by tokens those of padding are not compared.
            expected: what the model computes.
            actual: the same of the other program.

        Raises:
            UserError: a name is missing, a shape differs, or a value by more than the tolerance.
        """
        # Of pictures all counts.
        real = batch.get("attention_mask", torch.ones(0)).bool()
        for name, ours in expected.items():
            theirs = actual.get(name)
            if theirs is None or theirs.shape != ours.shape:
                shape = "none" if theirs is None else tuple(theirs.shape)
                raise self._failed(f"{name} has the shape {shape}, not {tuple(ours.shape)}")
            written = "decoder_input_ids" in batch and not name.startswith("encoder_")
            if len(real) and not written and ours.shape[: real.ndim] == real.shape:
                ours, theirs = ours[real], theirs[real]
            difference = (theirs.float() - ours.float()).abs().max()
            share = float(difference / ours.abs().max().clamp(min=1.0))
            if not share <= self._tolerance:  # nor where it is no number
                raise self._failed(f"{name} differs by {share:.1e}")
            self._largest = max(self._largest, share)
        self._batches += 1

    def result(self) -> Check:
        """Return what the comparison came to."""
        return Check(consumer=self._consumer, batches=self._batches, difference=self._largest)

    def _failed(self, what: str) -> UserError:
        return UserError(
            f"{self._source.folder}: {self._consumer} does not compute what the run does: {what}; "
            "nothing was written"
        )


def check_by_reading(source: Source, folder: Path) -> Check:
    """Compare a folder that heedful reads itself with the model that it was written from.

    Raises:
        UserError: its model computes something else.
    """
    again = replace(source, model=load_model(folder))
    comparison = Comparison(source, f"heedful {__version__}")
    for batch in sample_batches(source):
        comparison.add(batch, outputs_of(source, batch), outputs_of(again, batch))
    return comparison.result()
