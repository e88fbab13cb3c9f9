"""Read and write configurations in model folders."""

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from heedful import files
from heedful.errors import UserError
from heedful.models.loading import family_of
from heedful.models.pretrained import CONFIG, check_no_overwrite
from heedful.sources import resolve


class StoredConfig(ABC):
    """A configuration stored in a ``config.json``."""

    @classmethod
    @abstractmethod
    def read(cls, path: Path) -> Self:
        """Read a ``config.json``.

        Raises:
            UserError: the file cannot be read or is of another family, a key is unknown, or its
                value is not supported.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the content of a ``config.json``."""

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike[str], *, revision: str | None = None) -> Self:
        """Read the configuration of a model; ``dataclasses.replace`` changes it.

        Args:
            name: see ``heedful.sources.resolve``.
            revision: commit, tag or branch of a hub name.

        Raises:
            UserError: the model does not exist or is of another family; see also `read`.
        """
        folder = resolve(name, revision)
        model_type, family = family_of(folder)
        if family.config_class() is not cls:
            call = f"{family.config}.from_pretrained"
            raise UserError(f"{folder}: model_type is {model_type!r}; call {call}")
        return cls.read(folder / CONFIG)

    def save_pretrained(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write ``config.json``; other files in the folder stay.

        Raises:
            UserError: the folder is a file, or the file exists and ``overwrite`` is false.
        """
        folder = Path(folder)
        check_no_overwrite(folder, (CONFIG,), overwrite=overwrite)
        folder.mkdir(parents=True, exist_ok=True)
        with files.new_file(folder / CONFIG, overwrite=True) as partial:
            files.write_json(partial, self.to_dict())
