"""Loading of runs from their folders, and detection of changed folders."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import MANIFEST, check_manifest
from heedful.images.opening import blank_image
from heedful.predictor import Predictor
from heedful.settings import PredictSettings, ServeSettings
from heedful.sources import PACKAGES

Version = tuple[tuple[str, int, int, int], ...]
"""Path, size, modification time and inode number of each file in a folder, recursively."""

_IGNORED_FILES = {"MODEL_CARD.md"}
"""Files of a run that no answer depends on. Users may edit them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A loaded run."""

    folder: str
    """The folder or bare model named on the command line."""
    predictor: Predictor
    version: Version


def load(folder: str, settings: ServeSettings, *, changing: bool = False) -> Loaded:
    """Load a run with the settings of a server.

    Args:
        folder: the folder or bare model named on the command line.
        settings: the server's settings.
        changing: whether the folder may be being written to, so that it may mix files of two runs.
            If so, the files are checked against the manifest.

    Raises:
        UserError: the folder is not a finished run or a model, or it is damaged.
    """
    version = version_of(folder)  # before loading, so that no change goes unnoticed
    path = Path(folder)
    if changing and folder not in PACKAGES and (path / MANIFEST).is_file():
        check_manifest(path, {name for name, *_ in version} - _IGNORED_FILES)
    predictor = Predictor.load(
        folder,
        PredictSettings(
            precision=settings.precision,
            device=settings.device,
            long_text=settings.long_text,
            max_length=settings.max_length,
            batch_tokens=settings.batch_tokens,
        ),
        mapped=False,  # a new run may be copied over the folder while this one is in use
    )
    return Loaded(folder=folder, predictor=predictor, version=version)


def version_of(folder: str) -> Version:
    """Return the version of a folder's files, which changes when a file changes."""
    if folder in PACKAGES or not Path(folder).is_dir():
        return ()
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    states = [(path.relative_to(folder).as_posix(), path.stat()) for path in files]
    return tuple((name, one.st_size, one.st_mtime_ns, one.st_ino) for name, one in states)


def warm_records(predictor: Predictor) -> list[Any]:
    """Return records to warm up a run: a short one, and one of the model's maximum length."""
    long_text = " ".join(["word"] * predictor.max_length)
    inputs: Any
    kinds: list[Any] = [["word", long_text], [("word", long_text)], [("word", "word", long_text)]]
    if "fill" in predictor.task.abilities:
        kinds.insert(
            0, [predictor.tokenizer.mask_token, f"{predictor.tokenizer.mask_token} {long_text}"]
        )
    if "see" in predictor.task.abilities:
        kinds = [[blank_image()]]
    for inputs in kinds:
        try:
            records = predictor.task.from_texts(inputs)
            list(predictor.encode(records, predictor.settings))
        except UserError:  # the task needs pairs or choices
            continue
        return records
    return []
