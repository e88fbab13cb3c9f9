"""A run as a folder of ``transformers``: what its ``from_pretrained`` and ``pipeline`` open.

Models and tokenizers have the reference's names and files already. What is added is what its fast
tokenizers read (``tokenizer.json``), how long a text may be, and how a writer searches.
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
from heedful.interop import marian
from heedful.interop.checking import TOLERANCE, Check, Comparison, outputs_of, sample_batches
from heedful.interop.source import Source, write_files
from heedful.models import BertEncoderDecoder, RnnSearch, Transformer
from heedful.models.pretrained import CONFIG
from heedful.settings import ExportSettings, PredictSettings
from heedful.tokens import BertTokenizer
from heedful.tokens.folder import COMPILED
from heedful.tokens.folder import CONFIG as TOKENIZER_CONFIG

SAMPLES = (
    "",
    "a b, c",
    "The quick (brown) fox isn't here: it cost $5.20!",
    "Crème brûlée à la carte — naïve",
    "東京 is 日本's capital\u00a0city",
    "line one\nline two\ttab   spaces 😀 x",
)
"""Texts that both tokenizers must read alike."""


def export(source: Source, folder: Path, settings: ExportSettings) -> Check:
    """Write a run, and compare it in ``transformers``.

    Raises:
        UserError: the reference has no such model, computes something else, or is not installed.
    """
    transformers = _library()
    _refuse(source)
    if isinstance(source.model, Transformer):
        marian.write_translator(source, folder)
    else:
        write_files(source, folder)
        if source.sees:
            _compare_pixels(source, folder, transformers)
            return compare(source, folder)
        path = folder / TOKENIZER_CONFIG
        write_json(path, {**read_json(path), "model_max_length": source.record.max_length})
        _write_search(source, folder)
        _write_compiled_tokenizer(source, folder, transformers)
    return compare(source, folder)


def compare(source: Source, folder: Path) -> Check:
    """Compare what ``transformers`` computes from a folder with what the model computes.

    Raises:
        UserError: they differ.
    """
    transformers = _library()
    with _quiet(), torch.inference_mode():
        model = _opened(source, folder, transformers)
        comparison = Comparison(source, _consumer())
        for batch in sample_batches(source):
            if isinstance(model.base_model, transformers.BigBirdModel):
                # A short text has it read all later ones as a whole, too.
                model.base_model.set_attention_type(model.config.attention_type)
            output = _computed(source, model, batch)
            comparison.add(batch, outputs_of(source, batch), dict(output.items()))
    return comparison.result()


def _opened(source: Source, folder: Path, transformers: Any) -> Any:
    """Return the reference's model of a folder, in evaluation mode.

    Raises:
        UserError: the reference has no such model, or cannot open it.
    """
    (architecture,) = read_json(folder / CONFIG)["architectures"]
    kind = getattr(transformers, architecture, None)
    if kind is None:
        raise UserError(
            f"{source.folder}: {_consumer()} has no {architecture}; --format onnx can hold it"
        )
    try:
        return kind.from_pretrained(folder, local_files_only=True).eval()
    except (RuntimeError, ValueError) as error:  # by which it says that weights do not fit
        raise UserError(
            f"{source.folder}: {_consumer()} cannot open what was written: {_line(error)}"
        ) from error


def _computed(source: Source, model: Any, batch: Any) -> Any:
    """Return what the reference computes.

    Raises:
        UserError: it cannot, as with a BigBird without drawn blocks.
    """
    try:
        return model(**batch)
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"{source.folder}: {_consumer()} cannot compute such a model: {_line(error)}; "
            "--format onnx can hold it"
        ) from error


def _consumer() -> str:
    return f"transformers {version('transformers')}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _compare_pixels(source: Source, folder: Path, transformers: Any) -> None:
    """Compare what both make of a picture.

    Raises:
        UserError: the reference makes other pixels of it.
    """
    from PIL import Image

    draw = np.random.default_rng(0)
    shape = (37, 53) if source.tokenizer.channels == 1 else (37, 53, 3)
    picture = Image.fromarray(draw.integers(0, 256, shape, dtype=np.uint8))
    ours = source.tokenizer(picture, return_tensors="np")["pixel_values"]
    theirs = transformers.ViTImageProcessor.from_pretrained(folder, local_files_only=True)
    pixels = np.asarray(picture)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    right = theirs(pixels, return_tensors="np", input_data_format="channels_last")["pixel_values"]
    if ours.shape != right.shape or np.abs(ours - right).max() > TOLERANCE:
        raise UserError(
            f"{source.folder}: transformers turns a picture into other pixels than heedful does; "
            "nothing was written"
        )


def _library() -> Any:
    try:
        import transformers
    except ImportError:
        raise missing("hf") from None
    return transformers


def _refuse(source: Source) -> None:
    """Raise where the reference has no such model.

    Raises:
        UserError: saying what can be done instead.
    """
    model, tokenizer = source.model, source.tokenizer
    if isinstance(model, RnnSearch):
        raise UserError(
            f"{source.folder}: a recurrent network, which transformers does not have; "
            "--format onnx can hold it"
        )
    if getattr(model.body, "asks_with_positions", False):
        raise UserError(
            f"{source.folder}: it fills masks with an enhanced mask decoder, which transformers "
            "does not have; --format onnx can hold it"
        )
    if isinstance(tokenizer, BertTokenizer) and tokenizer.never_split:
        raise UserError(
            f"{source.folder}: its tokenizer keeps words whole (never_split), which the fast "
            "tokenizers of transformers cannot; --format onnx leaves texts to heedful's tokenizer"
        )


def _write_search(source: Source, folder: Path) -> None:
    """Write how a model that generates searches, as heedful does unless told otherwise."""
    model, tokenizer, defaults = source.model, source.tokenizer, PredictSettings()
    if not source.writes:
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
    write_json(folder / "generation_config.json", search)


def _write_compiled_tokenizer(source: Source, folder: Path, transformers: Any) -> None:
    """Write ``tokenizer.json``, by the reference's own conversion.

    Raises:
        UserError: it would read a text otherwise than heedful does.
    """
    with _quiet():
        theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    theirs.backend_tokenizer.save(str(folder / COMPILED))
    ours, layout = source.tokenizer, source.tokenizer.layout
    for text, ids in zip(SAMPLES, ours.encode_batch(SAMPLES), strict=True):
        if theirs(text, verbose=False)["input_ids"] != layout.ids(ids):
            raise UserError(
                f"{source.folder}: the tokenizer of transformers reads {text!r} otherwise than "
                "heedful's; nothing was written"
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library from logging what only its own users can act on."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
