"""Folders of other programs: those that are answered from as they are, and those that are written.

A new format is a file here and a line of a table.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.errors import UserError, with_article
from heedful.files import new_folder
from heedful.settings import ExportSettings

if TYPE_CHECKING:
    from heedful.checkpoints.runs import RunRecord
    from heedful.interop.checking import Check

DEFAULT = ExportSettings()


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """A layout that ``heedful export`` writes."""

    writer: str
    """Module and function: writes a `Source` to an empty folder, and returns its `Check`."""
    tasks: frozenset[str] | None = None
    """Tasks whose runs it can hold; None for all."""
    files: frozenset[str]
    """Names of what it writes, which ``--overwrite`` may replace."""
    about: str
    """What reads it, for the help."""
    opener: str | None = None
    """Module and function: from a `Source` and such a folder to what computes in the place of the
    model, where that may compute something else."""
    options: frozenset[str] = frozenset()
    """Fields of `ExportSettings` that it has."""


READERS = (
    "heedful.interop.sentence_transformers.read_record",
    "heedful.interop.marian.read_record",
    "heedful.interop.finetuned.read_record",
)
"""Functions that say what a folder without ``heedful.json`` is, as a run would, if they know it."""

_MODEL = {"config.json", "model.safetensors", "README.md"}
_TOKENIZER = {
    *("tokenizer_config.json", "special_tokens_map.json", "tokenizer.json"),
    *("preprocessor_config.json", "vocab.txt", "vocab.json", "merges.txt"),
    *("spiece.model", "spm.model", "sentencepiece.bpe.model"),
}
_TRANSLATOR = {
    *("generation_config.json", "vocab.json", "target_vocab.json", "tokenizer_config.json"),
    *("source.spm", "target.spm"),
}

_SENTENCES = {"modules.json", "sentence_bert_config.json", "1_Pooling"}
_GRAPHS = {
    *("model.onnx", "encoder_model.onnx"),
    *("decoder_model.onnx", "decoder_with_past_model.onnx"),
}
_COMPILED_GRAPHS = {
    name.replace(".onnx", suffix) for name in _GRAPHS for suffix in (".xml", ".bin")
}

FORMATS = {
    "hf": Format(
        writer="heedful.interop.hf.export",
        files=frozenset({*_MODEL, *_TOKENIZER, *_TRANSLATOR}),
        about="transformers",
    ),
    "onnx": Format(
        writer="heedful.interop.onnx.writing.export",
        files=frozenset({*_MODEL, *_TOKENIZER, *_TRANSLATOR, *_GRAPHS}),
        about="ONNX Runtime and others",
        opener="heedful.interop.onnx.runtime.open_model",
        options=frozenset({"int8"}),
    ),
    "openvino": Format(
        writer="heedful.interop.openvino.export",
        files=frozenset({*_MODEL, *_TOKENIZER, *_TRANSLATOR, *_COMPILED_GRAPHS}),
        about="OpenVINO",
    ),
    "sentence-transformers": Format(
        writer="heedful.interop.sentence_transformers.export",
        tasks=frozenset({"embed"}),
        files=frozenset({*_MODEL, *_TOKENIZER, *_SENTENCES}),
        about="sentence-transformers",
    ),
    "marian": Format(
        writer="heedful.interop.marian.export",
        tasks=frozenset({"translate"}),
        files=frozenset({*_MODEL, *_TRANSLATOR}),
        about="MarianMTModel of transformers, and what converts from it",
    ),
}
"""Every layout that can be written, by the name that ``--format`` takes."""


def foreign_record(folder: Path) -> "RunRecord | None":
    """Say what another program's folder is, as a run would; None where no reader knows it.

    Raises:
        UserError: one of its files is damaged.
    """
    from heedful.checkpoints.runs import RECORD

    if (folder / RECORD).is_file():
        return None
    records = (_imported(reader)(folder) for reader in READERS)
    record: RunRecord | None = next((record for record in records if record), None)
    return record


def answering_record(folder: Path) -> "RunRecord":
    """Say what a folder is that answers: a finished run, or another program's that is like one.

    Raises:
        UserError: it is neither, or one of its files is damaged.
    """
    from heedful.checkpoints.runs import read_finished

    return foreign_record(folder) or read_finished(folder)


def export(
    run: Path,
    out: Path,
    name: str,
    *,
    settings: ExportSettings = DEFAULT,
    overwrite: bool = False,
) -> "Check":
    """Write a run as a folder of another program, and check that it computes the same there.

    Args:
        run: a finished run.
        out: the folder.
        name: a key of ``FORMATS``.
        settings: what only some formats have.
        overwrite: whether to replace what was exported there.

    Raises:
        UserError: the run cannot be written so, the check fails, or the folder exists, and
            ``overwrite`` is false or it holds anything else.
    """
    from heedful.interop.source import open_source, read_source  # they need torch

    kind = FORMATS[name]
    for field in fields(settings):
        if getattr(settings, field.name) != field.default and field.name not in kind.options:
            fitting = " or ".join(
                other for other in FORMATS if field.name in FORMATS[other].options
            )
            raise UserError(
                f"--{field.name} has no effect on --format {name}; it is for --format {fitting}"
            )
    if out.exists() and not overwrite:  # now, not after all has been read
        raise UserError(f"{out} exists; choose another folder or give --overwrite")
    if out.exists() and run.exists() and out.samefile(run):
        raise UserError(f"--to {out} is what is exported; choose another folder")
    if out.is_file() or (out.is_dir() and {path.name for path in out.iterdir()} - kind.files):
        raise UserError(f"--to {out} holds other files than a model; choose another folder")
    _, record = read_source(run)
    if kind.tasks is not None and record.task not in kind.tasks:
        fitting = " or ".join(sorted(kind.tasks))
        raise UserError(
            f"{run}: {with_article(record.task)} run; --format {name} is for runs of {fitting}"
        )
    source = open_source(run)
    with new_folder(out, overwrite=overwrite) as folder:
        check: Check = _imported(kind.writer)(source, folder, settings)
    return check


def open_exported(run: Path, folder: Path, name: str) -> Any:
    """Open what was exported in the place of a run's model.

    Args:
        run: the run.
        folder: what it was exported to.
        name: the format, one with an opener.
    """
    from heedful.interop.source import open_source

    opener = FORMATS[name].opener
    assert opener is not None
    return _imported(opener)(open_source(run), folder)


def _imported(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
