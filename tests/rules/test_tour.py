"""docs/tour.md names every file of the package, and no others."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "heedful"
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
FILES = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}


def stops(tour: str, files: set[str]) -> Iterator[tuple[str, str, str | None]]:
    """Yield the heading, the written name and the file, for each file in the tour.

    A section whose heading starts with a folder names files from there on.
    """
    for section in re.split(r"^## ", tour, flags=re.MULTILINE)[1:]:
        heading = section.partition("\n")[0]
        folder = re.match(r"`(\w+/)`", heading)
        for name in re.findall(r"`([\w/]+\.py)`", section):
            paths = [f"{folder[1]}{name}", name] if folder else [name]
            yield heading, name, next((path for path in paths if path in files), None)


def test_the_tour_names_only_files_that_are_there() -> None:
    wrong = [f"{name} under '{heading}'" for heading, name, path in stops(TOUR, FILES) if not path]
    assert not wrong, f"docs/tour.md names files that are not in src/heedful: {', '.join(wrong)}"


def test_the_tour_names_every_file() -> None:
    named = {path for _, _, path in stops(TOUR, FILES)}
    missing = [
        f"`{path.partition('/')[2] or path}` in the section of {path.partition('/')[0]}"
        for path in sorted(FILES - named)
        if not path.endswith("__init__.py")  # named where there is something to say of it
    ]
    assert not missing, f"docs/tour.md lacks, with a few words each: {'; '.join(missing)}"


def test_names_are_looked_for_in_their_section() -> None:
    tour = "# Tour\n## The ground\n`a.py`\n## `x/`: what\n`a.py` `y/b.py` `gone.py`\n"
    files = {"a.py", "x/a.py", "x/y/b.py"}
    assert [path for _, _, path in stops(tour, files)] == ["a.py", "x/a.py", "x/y/b.py", None]
