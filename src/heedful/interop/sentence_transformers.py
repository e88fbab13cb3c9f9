"""Read and write the folder format of sentence-transformers.

Besides the encoder's own files, a folder has ``modules.json``, which lists the modules in order of
computation; a pooling folder; and a file with the maximum text length in tokens.

Shapes: B texts, T longest text, D embedding size.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from heedful.checkpoints.runs import RunRecord, outside_record
from heedful.errors import UserError
from heedful.files import read_json, read_json_or_empty, read_json_value, write_json
from heedful.interop import exported
from heedful.interop.checking import Check, check_by_reading, refuse_kept_words
from heedful.interop.source import Source, write_files
from heedful.models.encoder_config import usable_positions
from heedful.models.loading import head_of, read_config
from heedful.settings import ExportSettings
from heedful.tokens import load_encoder_tokenizer
from heedful.tokens.folder import CONFIG as TOKENIZER_CONFIG

Pooling = Literal["mean", "cls"]

MODULES = "modules.json"
_LENGTH = "sentence_bert_config.json"
_OTHER_LENGTHS = tuple(
    f"sentence_{family}_config.json"
    for family in ("roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Names of that file in the first releases. If there are several, the library reads the first."""
_ARGUMENTS = (
    "tokenizer_args",
    "processor_kwargs",
    "processing_kwargs",
    "config_args",
    "config_kwargs",
)
"""Keys of that file with extra arguments for the tokenizer and the model."""
_PROMPTS = "config_sentence_transformers.json"
_POOLING = "1_Pooling"
_MODES: dict[Pooling, str] = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
}
_OTHER_MODES = ("max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
_KINDS = ("Transformer", "Pooling", "Normalize")
_UNLIMITED = 10**6
"""The value that a tokenizer writes for unlimited length is far above this."""
_LETTERS = " ".join("abcdefghijklmnopqrstuvwxyz")
"""Letters as separate words, because a joined word may be unknown in both upper and lower case."""
_NAMES = "sentence_transformers.models."


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceLayout:
    """The settings of a sentence-transformers folder besides the encoder."""

    pooling: Pooling
    """How to pool token embeddings to a text embedding."""
    normalise: bool
    """Whether to scale text embeddings to length 1."""
    max_length: int | None
    """Maximum tokens of a text; None for the encoder's maximum."""


def pool(hidden_states: Tensor, mask: Tensor | None, pooling: Pooling) -> Tensor:
    """Pool token hidden states to text embeddings by the mean or the first token. Shape (B, D).

    Args:
        hidden_states: shape (B, T, D).
        mask: True or 1 for a token, False or 0 for padding; None if no padding. Shape (B, T).
        pooling: ``mean`` or ``cls``, the first token.
    """
    if pooling == "cls":
        return hidden_states[:, 0]
    if mask is None:
        return hidden_states.mean(1)
    real = mask[..., None].to(hidden_states.dtype)  # (B, T, 1)
    # The embedding of an empty text is zero.
    return (hidden_states * real).sum(1) / real.sum(1).clamp(min=1)


def read_record(folder: Path) -> RunRecord | None:
    """Return the run record of a sentence-transformers folder; None for any other folder.

    Raises:
        UserError: see `read_layout`.
    """
    if not (folder / MODULES).is_file() or _is_ranker(folder):
        return None
    layout = read_layout(folder)
    positions = usable_positions(read_config(folder))
    goal = {"pooling": layout.pooling, "normalise": layout.normalise}
    return outside_record("embed", goal, min(layout.max_length or positions, positions))


def read_layout(folder: Path) -> SentenceLayout:
    """Read the settings of a folder.

    Raises:
        UserError: a file is damaged, or the folder requires unsupported computations.
    """
    path = folder / MODULES
    kinds, paths = _read_modules(folder)
    if kinds not in (list(_KINDS), list(_KINDS[:2])) or paths[0]:
        raise UserError(
            f"{path}: its modules are {', '.join(kinds) or 'none'}; supported are Transformer, "
            "with its files in this folder, Pooling and perhaps Normalize"
        )
    if not re.fullmatch(r"[\w.-]+", paths[1]) or paths[1].startswith("."):
        raise UserError(f"{path}: {paths[1]!r} is not the name of a folder beside it")
    names = (name for name in (_LENGTH, *_OTHER_LENGTHS) if os.path.lexists(folder / name))
    sizes_path = folder / next(names, _LENGTH)
    sizes = read_json_or_empty(sizes_path)
    length = sizes.get("max_seq_length")
    if length is None:  # newer versions of the library write it elsewhere
        value = read_json_or_empty(folder / TOKENIZER_CONFIG).get("model_max_length")
        length = value if isinstance(value, int) and value < _UNLIMITED else None
    if length is not None and (not isinstance(length, int) or isinstance(length, bool)):
        raise UserError(f"{sizes_path}: max_seq_length is {length!r}; expected a number")
    for key in _ARGUMENTS:
        given = sizes.get(key)
        if given and not (isinstance(given, dict) and given.keys() <= {"trust_remote_code"}):
            raise UserError(
                f"{sizes_path}: {key} is {given!r}, which heedful does not support; write it "
                "into the files of the tokenizer or the model and set it to null"
            )
    _check_texts(folder, sizes_path if sizes.get("do_lower_case") else None)
    return SentenceLayout(
        pooling=_read_pooling(folder / paths[1] / "config.json"),
        normalise=len(kinds) == len(_KINDS),
        max_length=length,
    )


def _read_modules(folder: Path) -> tuple[list[str], list[str]]:
    """Return the type and the folder of each module.

    Raises:
        UserError: the file is damaged.
    """
    path = folder / MODULES
    modules = read_json_value(path)
    if not isinstance(modules, list) or not all(
        isinstance(module, dict) and {"type", "path"} <= module.keys() for module in modules
    ):
        raise UserError(f"{path}: expected a list of modules with type and path")
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    return kinds, [str(module["path"]) for module in modules]


def _is_ranker(folder: Path) -> bool:
    """Return whether a folder has a ``CrossEncoder``, which is a transformers classifier.

    Raises:
        UserError: a file is damaged, or the folder changes texts before tokenization.
    """
    if _read_modules(folder) != (["Transformer"], [""]) or head_of(folder) != "sequence":
        return False
    _check_texts(folder, None)
    return True


def _check_texts(folder: Path, lowers: Path | None) -> None:
    """Refuse a folder that changes texts before tokenization, which is not supported.

    Args:
        folder: the folder.
        lowers: the file that enables lower-casing, if any. Most tokenizers already lower-case texts
            themselves if required.

    Raises:
        UserError: the folder changes texts. The message says how.
    """
    if lowers:
        upper, lower = load_encoder_tokenizer(folder).encode_batch([_LETTERS.upper(), _LETTERS])
        if upper != lower:
            raise UserError(
                f"{lowers}: do_lower_case is true, but the tokenizer does not lower-case texts, "
                "and heedful does not do so either; give lower-cased texts and set it to false"
            )
    path = folder / _PROMPTS
    values = read_json_or_empty(path)
    if (size := values.get("truncate_dim")) is not None:
        raise UserError(
            f"{path}: truncate_dim {size} cuts the vectors, which heedful does not support; set it "
            "to null, and cut them yourself"
        )
    name, prompts = values.get("default_prompt_name"), values.get("prompts")
    prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
    if prompt:
        raise UserError(
            f"{path}: default_prompt_name {name!r} puts {prompt!r} before each text, which heedful "
            "does not support; give texts that begin with it and set it to null"
        )


def _read_pooling(path: Path) -> Pooling:
    values = read_json(path)
    enabled = [name for name, value in values.items() if name.startswith("pooling_mode_") and value]
    if (mode := values.get("pooling_mode")) is not None:  # newer versions of the library
        enabled = [str(name) for name in (mode if isinstance(mode, list) else [mode])]
    for pooling, name in _MODES.items():
        if enabled in ([name], [pooling]):
            return pooling
    raise UserError(
        f"{path}: pools by {' and '.join(enabled) or 'nothing'}; "
        f"supported is one of {', '.join(_MODES.values())}"
    )


def write_layout(layout: SentenceLayout, width: int, folder: Path) -> None:
    """Add the files of this format to an encoder folder.

    Args:
        layout: the settings to write.
        width: the embedding size.
        folder: the folder with the encoder's files.
    """
    kinds = _KINDS if layout.normalise else _KINDS[:2]
    paths = ("", _POOLING, "2_Normalize")
    modules: list[dict[str, Any]] = [
        {"idx": number, "name": str(number), "path": path, "type": _NAMES + kind}
        for number, (kind, path) in enumerate(zip(kinds, paths, strict=False))
    ]
    pooling: dict[str, Any] = {"word_embedding_dimension": width}
    pooling |= {name: mode == layout.pooling for mode, name in _MODES.items()}
    pooling |= {f"pooling_mode_{name}": False for name in _OTHER_MODES}
    (folder / _POOLING).mkdir()
    write_json(folder / _POOLING / "config.json", pooling)
    write_json(folder / _LENGTH, {"max_seq_length": layout.max_length, "do_lower_case": False})
    (folder / MODULES).write_text(json.dumps(modules, indent=2) + "\n", encoding="utf-8")


def export(source: Source, folder: Path, settings: ExportSettings) -> Check:
    """Write an embedding run, or an encoder without a head, and compare it after reloading.

    Raises:
        UserError: the program has no such encoder or tokenizer, or the reloaded model computes
            different outputs.
    """
    record, config = source.record, source.model.config
    if config.pruned_heads or config.position_embedding_type != "absolute":
        what = "pruned heads" if config.pruned_heads else "relative positions"
        raise UserError(
            f"{source.folder}: an encoder with {what}, which transformers 5, the basis of "
            "sentence-transformers, does not have; use --format onnx"
        )
    refuse_kept_words(source)
    layout = SentenceLayout(
        pooling=record.goal["pooling"],
        normalise=record.goal["normalise"],
        max_length=record.max_length,
    )
    write_files(source, folder)
    exported.write_record(record, folder)
    write_layout(layout, source.model.get_input_embeddings().embedding_dim, folder)
    if read_layout(folder) != layout:
        raise UserError(f"{source.folder}: its layout is read differently from how it was written")
    return check_by_reading(source, folder)
