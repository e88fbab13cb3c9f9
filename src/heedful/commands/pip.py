"""Download packages with pip, without dependencies and without running their code."""

import importlib.util
import re
import subprocess
import sys
from collections.abc import Sequence

from heedful.errors import UserError

_ERROR = re.compile(r"^error: *(.+)", re.IGNORECASE | re.MULTILINE)
_UNREACHABLE = re.compile(r"connection broken|Max retries exceeded|ConnectionError", re.IGNORECASE)
"""Matches pip's output if the registry is unreachable; pip then also reports a missing package."""


def run(arguments: Sequence[str], requirement: str) -> None:
    """Run a pip command.

    Args:
        arguments: ``install`` or ``download``, and its arguments.
        requirement: the package, for messages.

    Raises:
        UserError: pip is missing or fails.
    """
    if importlib.util.find_spec("pip") is None:
        raise UserError(
            f"{sys.executable} has no pip: run `{sys.executable} -m ensurepip`, or install "
            f"{requirement} without its dependencies by other means (uv pip install --no-deps ...)"
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    command += [arguments[0], "--no-deps", "--only-binary", ":all:", *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    errors = _ERROR.findall(done.stderr)
    reason = errors[0] if errors else f"exit code {done.returncode}"
    if _UNREACHABLE.search(done.stderr):
        reason += "; the registry did not answer: is there a network?"
    raise UserError(f"pip could not {arguments[0]} {requirement}: {reason}")
