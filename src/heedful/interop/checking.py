"""Check that another program computes the same outputs as heedful: sample batches and comparison.

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
from heedful.tokens import BertTokenizer

TOLERANCE = 1e-4
"""Maximum difference of outputs, relative to the largest output or to 1, whichever is larger.
Float32 sums in a different order differ by about a hundredth of this."""

INT8_TOLERANCE = 1.0
"""Maximum difference with 8-bit weights. Their true cost must be measured on data, but a difference
above the largest output means that the export is broken."""

_LENGTHS = ((5,), (4, 9, 2), (17, 3, 8, 12, 6))
"""Text lengths of each batch. A further batch has one text of the model's maximum length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """The result of a comparison."""

    consumer: str
    """The other program and its version."""
    batches: int
    difference: float
    """Largest difference, relative to the largest output or to 1, whichever is larger."""
    int8: float | None = None
    """Largest difference with 8-bit weights, if requested."""

    def __str__(self) -> str:
        coarse = "" if self.int8 is None else f", in int8 by at most {self.int8:.1e}"
        return (
            f"checked in {self.consumer} on {self.batches} batches: "
            f"outputs differ by at most {self.difference:.1e}{coarse}"
        )


def refuse_kept_words(source: Source) -> None:
    """Refuse a tokenizer that keeps words whole: the reference would split them.

    Raises:
        UserError: it does. The message suggests an alternative.
    """
    if isinstance(source.tokenizer, BertTokenizer) and source.tokenizer.never_split:
        raise UserError(
            f"{source.folder}: its tokenizer keeps words whole (never_split), which the fast "
            "tokenizers of transformers cannot; with --format onnx, heedful's tokenizer still does "
            "that"
        )


def sample_batches(source: Source) -> Iterator[dict[str, Tensor]]:
    """Yield padded batches of several sizes and lengths, as arguments of the model's ``forward``.

    Each has ``input_ids`` and ``attention_mask``, int64, (B, S), or (B, C, S) for choices. There
    are ``token_type_ids`` if the model uses them, and ``decoder_input_ids``, (B, T), for an
    encoder-decoder. Batches of an image model have only ``pixel_values``, (B, channels, rows,
    columns).
    """
    model, generator = source.model, torch.Generator().manual_seed(0)
    if source.reads_images:
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


def uses_token_types(source: Source) -> bool:
    """Return whether the part of the model that reads the input takes ``token_type_ids``."""
    layout = getattr(source.tokenizer, "layout", None)  # a translation tokenizer has none
    if layout is None or not layout.uses_token_types:
        return False
    if layout.types_single_texts:  # GPT-2 takes them for decisions, not for generation
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
    if uses_token_types(source):
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
    """Return target ids without padding, within the maximum length. Shape (B, T)."""
    if isinstance(model, BertEncoderDecoder):
        config, max_length = model.decoder.config, model.decoder.max_positions
        size, pad_id = config.vocab_size, config.pad_token_id
    else:
        size, pad_id = model.config.decoder_vocab_size, model.config.pad_token_id
        max_length = model.max_positions
    ids = torch.randint(size, (len(lengths), min(max(lengths), max_length)), generator=generator)
    return ids if pad_id is None else ids.where(ids != pad_id, (pad_id + 1) % size)


@torch.inference_mode()
def outputs_of(source: Source, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the model's outputs for a batch, by name."""
    output = source.model(**batch)
    return {name: output[name] for name in output if isinstance(output[name], Tensor)}


class Comparison:
    """Compares another program's outputs with the model's outputs on sample batches.

    Args:
        source: the source with the model.
        consumer: the program and its version.
        tolerance: maximum relative difference of outputs.
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
            batch: the input of both. Per-token outputs at padding positions are not compared.
            expected: the model's outputs.
            actual: the other program's outputs.

        Raises:
            UserError: a name is missing, a shape differs, or a value differs by more than the
                tolerance.
        """
        # Images have no padding.
        real = batch.get("attention_mask", torch.ones(0)).bool()
        for name, expected_output in expected.items():
            actual_output = actual.get(name)
            if actual_output is None or actual_output.shape != expected_output.shape:
                shape = "none" if actual_output is None else tuple(actual_output.shape)
                raise self._failed(
                    f"{name} has the shape {shape}, not {tuple(expected_output.shape)}"
                )
            from_decoder = "decoder_input_ids" in batch and not name.startswith("encoder_")
            if len(real) and not from_decoder and expected_output.shape[: real.ndim] == real.shape:
                expected_output, actual_output = expected_output[real], actual_output[real]
            difference = (actual_output.float() - expected_output.float()).abs().max()
            share = float(difference / expected_output.abs().max().clamp(min=1.0))
            if not share <= self._tolerance:  # also fails for NaN
                raise self._failed(f"{name} differs by {share:.1e}")
            self._largest = max(self._largest, share)
        self._batches += 1

    def result(self) -> Check:
        """Return the result of the comparison."""
        return Check(consumer=self._consumer, batches=self._batches, difference=self._largest)

    def _failed(self, what: str) -> UserError:
        return UserError(
            f"{self._source.folder}: {self._consumer} computes different outputs: {what}; "
            "nothing was written"
        )


def check_by_reading(source: Source, folder: Path) -> Check:
    """Load an exported folder in heedful and compare its model with the original.

    Raises:
        UserError: the loaded model computes different outputs.
    """
    reloaded = replace(source, model=load_model(folder))
    comparison = Comparison(source, f"heedful {__version__}")
    for batch in sample_batches(source):
        comparison.add(batch, outputs_of(source, batch), outputs_of(reloaded, batch))
    return comparison.result()
