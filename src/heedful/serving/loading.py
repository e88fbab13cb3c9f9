"""Runs from their folders, and whether a folder has changed since."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heedful.errors import UserError
from heedful.files import MANIFEST, check_manifest
from heedful.images.opening import blank_picture
from heedful.predictor import Predictor
from heedful.settings import PredictSettings, ServeSettings
from heedful.sources import PACKAGES

Version = tuple[tuple[str, int, int, int], ...]
"""Name, size, time and number of each file of a folder, and of the folders in it."""

_NOT_READ = {"MODEL_CARD.md"}
"""Files of a run on which no answer depends, so that users may edit them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """A run that was read."""

    folder: str
    """What the command line names: a folder, or a bare model."""
    predictor: Predictor
    version: Version


def load(folder: str, settings: ServeSettings, *, changing: bool = False) -> Loaded:
    """Load a run with the settings of a server.

    Args:
        folder: what the command line names.
        settings: of the server.
        changing: whether somebody may be writing the folder just now, so that its files may be of
            two runs.

    Raises:
        UserError: it is no finished run, no model, or damaged.
    """
    version = version_of(folder)  # before it is read, so that no change gets lost
    path = Path(folder)
    if changing and folder not in PACKAGES and (path / MANIFEST).is_file():
        check_manifest(path, {name for name, *_ in version} - _NOT_READ)
    predictor = Predictor.load(
        folder,
        PredictSettings(
            precision=settings.precision,
            device=settings.device,
            long_text=settings.long_text,
            max_length=settings.max_length,
            batch_tokens=settings.batch_tokens,
        ),
        mapped=False,  # a new run may be copied over the folder while this one answers
    )
    return Loaded(folder=folder, predictor=predictor, version=version)


def version_of(folder: str) -> Version:
    """Return what tells whether the files of a folder have changed."""
    if folder in PACKAGES or not Path(folder).is_dir():
        return ()
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    states = [(path.relative_to(folder).as_posix(), path.stat()) for path in files]
    return tuple((name, one.st_size, one.st_mtime_ns, one.st_ino) for name, one in states)


def warm_records(predictor: Predictor) -> list[Any]:
    """Return records to warm a run up with: a short one, and one as long as the model reads."""
    long = " ".join(["word"] * predictor.max_length)
    inputs: Any
    kinds: list[Any] = [["word", long], [("word", long)], [("word", "word", long)]]
    if "fill" in predictor.task.abilities:
        kinds.insert(
            0, [predictor.tokenizer.mask_token, f"{predictor.tokenizer.mask_token} {long}"]
        )
    if "see" in predictor.task.abilities:
        kinds = [[blank_picture()]]
    for inputs in kinds:
        try:
            records = predictor.task.from_texts(inputs)
            list(predictor.encode(records, predictor.settings))
        except UserError:  # it reads pairs, or choices
            continue
        return records
    return []
