"""The source of an export: a finished run, or a model of another program."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.checkpoints import runs
from heedful.checkpoints.runs import RunRecord, outside_record
from heedful.files import read_json, write_json
from heedful.images.processor import ViTImageProcessor
from heedful.interop import external_record
from heedful.models.loading import family_of, head_of, load_model
from heedful.models.model import Model
from heedful.models.pretrained import CONFIG
from heedful.readers import load_reader
from heedful.sources import PACKAGES, resolve
from heedful.tokens.folder import CONFIG as TOKENIZER_CONFIG
from heedful.tokens.folder import SPECIAL


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Source:
    """A model with everything its predictions depend on."""

    folder: Path
    record: RunRecord
    model: Model
    """The model in evaluation mode, on the CPU, in float32."""
    tokenizer: Any
    """A tokenizer, or a ``ViTImageProcessor``."""

    @property
    def reads_images(self) -> bool:
        """Whether the model reads images."""
        return isinstance(self.tokenizer, ViTImageProcessor)

    @property
    def generates(self) -> bool:
        """Whether the model generates text and is not a translation model."""
        return self.record.task in ("generate", "pretrain") and hasattr(self.model, "generate")


def read_source(run: str | os.PathLike[str]) -> tuple[Path, RunRecord]:
    """Return the folder and the record of a finished run.

    A supported folder of another program counts as a run. So does an encoder without a head, whose
    text embedding is the mean of its token embeddings.

    Raises:
        UserError: the folder is none of these, or one of its files is damaged.
    """
    folder = resolve(run) if os.fspath(run) in PACKAGES else Path(run)
    record = external_record(folder)
    if record is not None:
        return folder, record
    is_model = (folder / CONFIG).is_file() and not (folder / runs.RECORD).is_file()
    if is_model and head_of(folder) == "body" and family_of(folder)[1].reads == "texts":
        goal = {"pooling": "mean", "normalise": False}
        return folder, outside_record("embed", goal, load_model(folder).default_length)
    return folder, runs.read_finished(folder)


def open_source(run: str | os.PathLike[str]) -> Source:
    """Load a finished run or an equivalent folder; see `read_source`."""
    folder, record = read_source(run)
    model = load_model(folder, head=record.head)
    tokenizer = load_reader(folder, outside=record.outside)
    if not record.outside and family_of(folder)[0] == "gpt2" and not _reads_pairs(record):
        tokenizer.disable_token_types()  # see `load_reader`
    return Source(folder=folder, record=record, model=model, tokenizer=tokenizer)


def _reads_pairs(record: RunRecord) -> bool:
    return record.task in ("answer", "choose") or bool(record.goal.get("pairs"))


def write_files(source: Source, folder: Path) -> None:
    """Write the model and its tokenizer, with a padding token if the model has none.

    GPT-2 has none. Without a padding token, the reference accepts only one text at a time.
    """
    source.model.save_pretrained(folder)
    source.tokenizer.save_pretrained(folder)
    if getattr(source.model.config, "pad_token_id", 0) is None:
        tokenizer = source.tokenizer
        _add(folder / CONFIG, {"pad_token_id": tokenizer.pad_token_id})
        for name in (TOKENIZER_CONFIG, SPECIAL):
            _add(folder / name, {"pad_token": tokenizer.pad_token})


def _add(path: Path, values: dict[str, Any]) -> None:
    write_json(path, {**read_json(path), **values})
