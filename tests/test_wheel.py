"""What users install is the wheel, not the source tree."""

import csv
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _python(*arguments: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _python("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """Install the wheel into a folder; as PYTHONPATH it comes before the editable install."""
    folder = wheel.parent / "installed"
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    _python(*install, "--target", folder, wheel, cwd=wheel.parent)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "heedful/py.typed" in names
    distribution, version = wheel.name.split("-")[:2]
    assert {name.split("/")[0] for name in names} == {
        "heedful",
        f"{distribution}-{version}.dist-info",
    }
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if name.startswith("heedful/")} == files
    assert "heedful/pages/look.css" in files


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 2_000_000


def test_the_wheel_holds_the_tickets_of_the_demo(wheel: Path) -> None:
    tickets = ROOT / "src" / "heedful" / "tickets"
    with zipfile.ZipFile(wheel) as archive:
        for name, rows in (("train.csv", 548), ("test.csv", 151)):
            content = archive.read(f"heedful/tickets/{name}")
            assert content == (tickets / name).read_bytes()
            assert len(list(csv.DictReader(io.StringIO(content.decode())))) == rows


def test_the_wheel_works_away_from_the_source_tree(installed: Path, tmp_path: Path) -> None:
    path = {"PYTHONPATH": str(installed)}
    program = "import heedful, heedful.tokens as t; print(heedful.__file__, t.__file__, sep='\\n')"
    printed = _python("-c", program, cwd=tmp_path, **path)
    assert [Path(line).is_relative_to(installed) for line in printed.splitlines()] == [True, True]
    assert "heedful train" in _python("-m", "heedful", "train", "--help", cwd=tmp_path, **path)
