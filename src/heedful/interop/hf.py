"""Export a run as a ``transformers`` folder for its ``from_pretrained`` and ``pipeline``.

Models and tokenizers already use the reference's names and files. Export adds the file of its fast
tokenizers (``tokenizer.json``), the maximum text length, and the settings of beam search.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heedful.errors import UserError
from heedful.extras import missing
from heedful.files import read_json, write_json
from heedful.interop import exported, marian
from heedful.interop.checking import (
    TOLERANCE,
    Check,
    Comparison,
    outputs_of,
    refuse_kept_words,
    sample_batches,
)
from heedful.interop.source import Source, write_files
from heedful.models import BertEncoderDecoder, RnnSearch, Transformer
from heedful.models.generation_defaults import GENERATION
from heedful.models.pretrained import CONFIG
from heedful.settings import ExportSettings, PredictSettings
from heedful.tokens.folder import CONFIG as TOKENIZER_CONFIG
from heedful.tokens.folder import TOKENIZER_JSON

SAMPLES = (
    "",
    "a b, c",
    "The quick (brown) fox isn't here: it cost $5.20!",
    "Crème brûlée à la carte — naïve",
    "東京 is 日本's capital\u00a0city",
    "line one\nline two\ttab   spaces 😀 x",
)
"""Texts that both tokenizers must encode identically."""


def export(source: Source, folder: Path, settings: ExportSettings) -> Check:
    """Write a run, and compare its outputs in ``transformers``.

    Raises:
        UserError: the reference has no such model, computes different outputs, or is not installed.
    """
    transformers = _library()
    _refuse(source)
    if isinstance(source.model, Transformer):
        marian.write_translator(source, folder)
    else:
        write_files(source, folder)
        exported.write_record(source.record, folder)
        if source.reads_images:
            _compare_pixels(source, folder, transformers)
            return compare(source, folder)
        path = folder / TOKENIZER_CONFIG
        write_json(path, {**read_json(path), "model_max_length": source.record.max_length})
        _write_search(source, folder)
        _write_compiled_tokenizer(source, folder, transformers)
    return compare(source, folder)


def compare(source: Source, folder: Path) -> Check:
    """Compare the outputs of ``transformers`` for a folder with the model's outputs.

    Raises:
        UserError: the outputs differ.
    """
    transformers = _library()
    with _quiet(), torch.inference_mode():
        model = _load_reference(source, folder, transformers)
        comparison = Comparison(source, _consumer())
        for batch in sample_batches(source):
            if isinstance(model.base_model, transformers.BigBirdModel):
                # A short text permanently switches it to full attention.
                model.base_model.set_attention_type(model.config.attention_type)
            output = _reference_output(source, model, batch)
            comparison.add(batch, outputs_of(source, batch), dict(output.items()))
    return comparison.result()


def _load_reference(source: Source, folder: Path, transformers: Any) -> Any:
    """Return the reference's model of a folder, in evaluation mode.

    Raises:
        UserError: the reference has no such model, or cannot load it.
    """
    (architecture,) = read_json(folder / CONFIG)["architectures"]
    kind = getattr(transformers, architecture, None)
    if kind is None:
        raise UserError(f"{source.folder}: {_consumer()} has no {architecture}; use --format onnx")
    try:
        return kind.from_pretrained(folder, local_files_only=True).eval()
    except (RuntimeError, ValueError) as error:  # raised for mismatched weights
        raise UserError(
            f"{source.folder}: {_consumer()} cannot load the exported model: {_one_line(error)}"
        ) from error


def _reference_output(source: Source, model: Any, batch: Any) -> Any:
    """Return the reference's output for a batch.

    Raises:
        UserError: the reference fails, such as for a BigBird without random blocks.
    """
    try:
        return model(**batch)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"{source.folder}: {_consumer()} cannot compute such a model: {_one_line(error)}; "
            "use --format onnx"
        ) from error


def _consumer() -> str:
    return f"transformers {version('transformers')}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _compare_pixels(source: Source, folder: Path, transformers: Any) -> None:
    """Compare the image preprocessing of both programs.

    Raises:
        UserError: the reference computes different pixel values.
    """
    from PIL import Image

    generator = np.random.default_rng(0)
    shape = (37, 53) if source.tokenizer.channels == 1 else (37, 53, 3)
    image = Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8))
    ours = source.tokenizer(image, return_tensors="np")["pixel_values"]
    processor = transformers.ViTImageProcessor.from_pretrained(folder, local_files_only=True)
    pixels = np.asarray(image)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    ref = processor(pixels, return_tensors="np", input_data_format="channels_last")["pixel_values"]
    if ours.shape != ref.shape or np.abs(ours - ref).max() > TOLERANCE:
        raise UserError(
            f"{source.folder}: transformers computes different pixel values from an image than "
            "heedful; nothing was written"
        )


def _library() -> Any:
    try:
        import transformers
    except ImportError:
        raise missing("hf") from None
    return transformers


def _refuse(source: Source) -> None:
    """Refuse a model that the reference does not have.

    Raises:
        UserError: the reference has no such model. The message suggests an alternative.
    """
    model = source.model
    if isinstance(model, RnnSearch):
        raise UserError(
            f"{source.folder}: transformers has no recurrent networks; use --format onnx"
        )
    if getattr(model.body, "queries_add_positions", False):
        raise UserError(
            f"{source.folder}: it fills masks with an enhanced mask decoder, which transformers "
            "does not have; use --format onnx"
        )
    refuse_kept_words(source)


def _write_search(source: Source, folder: Path) -> None:
    """Write the beam search settings of a generating model, with heedful's defaults."""
    model, tokenizer, defaults = source.model, source.tokenizer, PredictSettings()
    if not source.generates:
        return
    search = {
        "eos_token_id": tokenizer.sep_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "num_beams": defaults.beam,
        "length_penalty": defaults.length_penalty,
        "early_stopping": True,
    }
    if tokenizer.cls_token_id != tokenizer.sep_token_id:
        search |= {"bad_words_ids": [[tokenizer.cls_token_id]]}
    if isinstance(model, BertEncoderDecoder):
        positions = model.decoder.max_positions
        start = model.decoder_start_token_id
        search |= {"decoder_start_token_id": start, "max_length": min(65, positions)}
    else:
        search |= {"max_new_tokens": min(64, model.max_positions // 2)}
    write_json(folder / GENERATION, search)


def _write_compiled_tokenizer(source: Source, folder: Path, transformers: Any) -> None:
    """Write ``tokenizer.json`` with the reference's own conversion.

    Raises:
        UserError: the converted tokenizer encodes a text differently than heedful.
    """
    with _quiet():
        theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    theirs.backend_tokenizer.save(str(folder / TOKENIZER_JSON))
    ours, layout = source.tokenizer, source.tokenizer.layout
    for text, ids in zip(SAMPLES, ours.encode_batch(SAMPLES), strict=True):
        if theirs(text, verbose=False)["input_ids"] != layout.ids(ids):
            raise UserError(
                f"{source.folder}: the tokenizer of transformers splits {text!r} differently "
                "from heedful's; nothing was written"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress log messages that are only relevant to direct users of the library."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
