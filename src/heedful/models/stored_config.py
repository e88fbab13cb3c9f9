"""Configurations from the folders of models, and into folders."""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from heedful import files
from heedful.errors import UserError
from heedful.models.loading import family_of
from heedful.models.pretrained import CONFIG, check_free
from heedful.sources import resolve


class StoredConfig(ABC):
    """A configuration that a ``config.json`` holds."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def read(cls, path: Path) -> Self:
        """Read a ``config.json``.

        Raises:
            UserError: the file cannot be read, is of another family, or a key is unknown, or its
                value not supported.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return what a ``config.json`` holds."""

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str], *, revision: str | None = None) -> Self:
        """Read the configuration of a model; ``dataclasses.replace`` changes it.

        Args:
            name: see ``heedful.sources.resolve``.
            revision: commit, tag or branch of a hub name.

        Raises:
            UserError: there is no such model, or it is of another family; or see `read`.
        """
        folder = resolve(name, revision)
        model_type, family = family_of(folder)
        if family.config_class() is not cls:
            call = f"{family.config}.from_pretrained"
            raise UserError(f"{folder}: model_type is {model_type!r}; call {call}")
        return cls.read(folder / CONFIG)

    def save_pretrained(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write ``config.json``; other files of the folder stay.

        Raises:
            UserError: there is one already and ``overwrite`` is false, or the folder is a file.
        """
        folder = Path(folder)
        check_free(folder, (CONFIG,), overwrite=overwrite)
        folder.mkdir(parents=True, exist_ok=True)
        with files.new_file(folder / CONFIG, overwrite=True) as partial:
            files.write_json(partial, self.to_dict())
