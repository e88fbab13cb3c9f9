"""The image of the server: its steps, as far as they go without an engine and a network.

Run are: the choice of torch's version, the build of the package from what is copied, the start of
the server with the words of ENTRYPOINT, and the health check. Only read are: the base, the user,
and what pip installs from its index.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.serving.outside import serving

ROOT = Path(__file__).parents[2]
RUN = ROOT / "tests" / "golden" / "0.1.0" / "classify"


def _steps() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile and their words."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.M)
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


STEPS = _steps()


def _only(name: str) -> str:
    (words,) = [words for instruction, words in STEPS if instruction == name]
    return words


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with the files that the image copies to /build."""
    folder = tmp_path_factory.mktemp("image")
    for instruction, words in STEPS:
        if instruction == "COPY":
            *sources, target = words.split()
            assert target.startswith("/build/")
            for source in sources:
                if (ROOT / source).is_dir():
                    skip = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / source, folder / source, ignore=skip)
                else:
                    shutil.copy(ROOT / source, folder)
    return folder


def test_what_is_copied_is_let_in() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*"
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = {source for name, words in STEPS if name == "COPY" for source in words.split()[:-1]}
    assert copied == let_in


def test_the_process_has_no_rights_and_knows_no_secrets() -> None:
    names = [name for name, _ in STEPS]
    assert _only("USER") == "heedful"
    assert any(name == "RUN" and "useradd" in words for name, words in STEPS)
    assert "RUN" not in names[names.index("USER") :]
    assert "COPY" not in names[names.index("USER") :]
    for name, words in STEPS:
        if name in ("ARG", "ENV"):
            assert not re.search(r"key|token|secret|password", words, re.IGNORECASE)


def test_torch_has_the_version_of_the_lock(build: Path) -> None:
    (step,) = [words for name, words in STEPS if name == "RUN" and "torch==" in words]
    (choice,) = re.findall(r"\$\((.*)\)", step)
    done = subprocess.run(
        choice.replace("/build", str(build)), shell=True, capture_output=True, text=True, check=True
    )
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert done.stdout.splitlines() == [line for line in lock if line.startswith("torch==")]
    assert len(done.stdout.splitlines()) == 1


def test_what_is_copied_is_all_that_the_package_is_made_of(build: Path, tmp_path: Path) -> None:
    (step,) = [words for name, words in STEPS if name == "RUN" and "[serve]" in words]
    assert "--constraint /build/requirements.lock" in step
    words = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    command = [sys.executable, *words, "--target", str(tmp_path / "site"), str(build)]
    subprocess.run(command, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "heedful", "serve", "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--host" in done.stdout


def test_the_server_starts_and_its_health_is_seen() -> None:
    words = json.loads(_only("ENTRYPOINT"))
    assert words == ["heedful", "serve", "--host", "0.0.0.0", "--port", _only("EXPOSE")]
    options, _, check = _only("HEALTHCHECK").partition("CMD ")
    assert "--start-period=" in options
    python, *program = json.loads(check)
    assert python == "python"
    with serving(RUN, "--host", "127.0.0.1", "--device", "cpu") as server:
        mine = [word.replace(_only("EXPOSE"), str(server.port)) for word in program]
        assert subprocess.run([sys.executable, *mine], check=False).returncode == 0
    dead = subprocess.run([sys.executable, *mine], check=False, stderr=subprocess.DEVNULL)
    assert dead.returncode != 0


def test_the_page_shows_commands_that_the_command_line_takes() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in page.splitlines() if line.startswith("    docker ")]
    assert [shlex.split(line)[1] for line in lines] == ["build", "build", "run", "run"]
