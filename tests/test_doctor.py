"""The doctor lists what is installed and, for what is missing, its use and how to install it."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from heedful import doctor
from heedful.extras import EXTRAS, missing

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def test_every_optional_package_of_the_project_is_known() -> None:
    declared = {
        name: {re.split(r"[<>=\[]", requirement)[0] for requirement in requirements}
        for name, requirements in PROJECT["optional-dependencies"].items()
    }
    packages = {package for extra in declared.values() for package in extra} - {"heedful"}
    known = [package for extra in EXTRAS.values() for package in extra.packages]
    assert sorted(known) == sorted(packages)
    for name, extra in EXTRAS.items():
        assert set(extra.packages) <= declared[name]


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_plots(name: str) -> str:
        if name == "matplotlib":
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", without_plots)
    optional = doctor.examine()["optional"]
    assert isinstance(optional, dict)
    assert optional["matplotlib"] == "missing: plots need it: pip install 'heedful[plot]'"
    assert optional["protobuf"] == version("protobuf")


def test_what_needs_a_missing_package_says_how_to_install_it() -> None:
    expected = "folders of Marian need sentencepiece and protobuf: pip install 'heedful[marian]'"
    assert str(missing("marian")) == expected
