"""What users install is the wheel, not the source tree."""

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
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _python("-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


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
    modules = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules


def test_the_wheel_works_away_from_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    _python(*install, "--target", target, wheel, cwd=tmp_path)
    # PYTHONPATH comes before the editable install of the source tree.
    path = {"PYTHONPATH": str(target)}
    program = "import heedful, heedful.tokens as t; print(heedful.__file__, t.__file__, sep='\\n')"
    printed = _python("-c", program, cwd=tmp_path, **path)
    assert [Path(line).is_relative_to(target) for line in printed.splitlines()] == [True, True]
    assert "heedful train" in _python("-m", "heedful", "train", "--help", cwd=tmp_path, **path)
