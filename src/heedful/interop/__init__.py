"""Model folders of other programs: read for predictions, or written by export.

To add a format, add a module here and a row in a table.
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
    """A folder format that ``heedful export`` writes."""

    writer: str
    """Dotted path of a function that writes a `Source` to an empty folder and returns a `Check`."""
    tasks: frozenset[str] | None = None
    """Supported tasks; None for all."""
    files: frozenset[str]
    """Names of the written files, which ``--overwrite`` may replace."""
    about: str
    """The programs that read the format, for the help."""
    opener: str | None = None
    """Dotted path of a function from a `Source` and an exported folder to a replacement for the
    model. Only for formats whose outputs may differ from the model's."""
    options: frozenset[str] = frozenset()
    """Supported fields of `ExportSettings`."""


READERS = (
    "heedful.interop.exported.read_record",
    "heedful.interop.sentence_transformers.read_record",
    "heedful.interop.marian.read_record",
    "heedful.interop.finetuned.read_record",
)
"""Functions that return the run record of a folder without ``heedful.json`` if they know it."""

_MODEL = {"config.json", "model.safetensors", "heedful_export.json", "README.md"}
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
"""All export formats, by the name for ``--format``."""


def external_record(folder: Path) -> "RunRecord | None":
    """Return another program's folder as a run record; None if no reader knows the folder.

    Raises:
        UserError: one of the folder's files is damaged.
    """
    from heedful.checkpoints.runs import RECORD

    if (folder / RECORD).is_file():
        return None
    records = (_imported(reader)(folder) for reader in READERS)
    record: RunRecord | None = next((record for record in records if record), None)
    return record


def predictable_record(folder: Path) -> "RunRecord":
    """Return the record of a folder for predictions: a finished run, or another program's model.

    Raises:
        UserError: the folder is neither, or one of its files is damaged.
    """
    from heedful.checkpoints.runs import read_finished

    return external_record(folder) or read_finished(folder)


def export(
    run: Path,
    out: Path,
    name: str,
    *,
    settings: ExportSettings = DEFAULT,
    overwrite: bool = False,
) -> "Check":
    """Export a run to a folder of another program, and check that the outputs are the same.

    Args:
        run: a finished run.
        out: the output folder.
        name: a key of ``FORMATS``.
        settings: options that only some formats support.
        overwrite: whether to replace an earlier export in the folder.

    Raises:
        UserError: the run cannot be exported to this format; the check fails; or the folder exists
            and ``overwrite`` is false or it has other files.
    """
    from heedful.interop.source import open_source, read_source  # lazy import of torch

    format = FORMATS[name]
    for field in fields(settings):
        if getattr(settings, field.name) != field.default and field.name not in format.options:
            supported = " or ".join(
                other for other in FORMATS if field.name in FORMATS[other].options
            )
            raise UserError(
                f"--{field.name} has no effect on --format {name}; it is for --format {supported}"
            )
    if out.exists() and not overwrite:  # fail early, before the run is read
        raise UserError(f"{out} exists; choose another folder or give --overwrite")
    if out.exists() and run.exists() and out.samefile(run):
        raise UserError(f"--to {out} is the model to export; choose another folder")
    if out.exists() and (not out.is_dir() or {path.name for path in out.iterdir()} - format.files):
        raise UserError(f"--to {out} holds other files than a model; choose another folder")
    _, record = read_source(run)
    if format.tasks is not None and record.task not in format.tasks:
        supported = " or ".join(sorted(format.tasks))
        raise UserError(
            f"{run}: {with_article(record.task)} run; --format {name} is for runs of {supported}"
        )
    source = open_source(run)
    with new_folder(out, overwrite=overwrite) as folder:
        check: Check = _imported(format.writer)(source, folder, settings)
    return check


def open_exported(run: Path, folder: Path, name: str) -> Any:
    """Open an exported folder as a replacement for a run's model.

    Args:
        run: the run.
        folder: the exported folder.
        name: a format with an opener.
    """
    from heedful.interop.source import open_source

    opener = FORMATS[name].opener
    assert opener is not None
    return _imported(opener)(open_source(run), folder)


def _imported(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
