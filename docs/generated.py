"""The parts of the site that come from the code: the commands and the Python names."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from sphinx.application import Sphinx

import heedful
from heedful.cli import app

_OPTIONS = re.compile(r"^\*\*(?P<title>[^*\n]+)\*\*:\n\n(?:\* .*\n)+", re.MULTILINE)
"""A group of options: its title, and a list."""
_AND = "**Shared options**: "


def commands() -> str:
    """Return every command with its options; groups that several share stand once, at the end."""
    text = app.generate_docs("markdown", usage_name="heedful")
    text = text[text.index("\n## heedful ") :]
    # The library also writes the negative of what is off anyway.
    text = re.sub(r", --empty-[a-z-]+|, --no-[a-z-]+(?=`:[^`]*\[default: False\])", "", text)
    text = re.sub(r"^(\* .*)\n +(.*)", r"\1 \2", text, flags=re.MULTILINE)  # one line an option
    times = Counter(match[0] for match in _OPTIONS.finditer(text))
    shared = {match["title"]: match[0] for match in _OPTIONS.finditer(text) if times[match[0]] > 2}
    sections = [_with_links(part, shared) for part in re.split(r"\n(?=##+ )", text)]
    sections.append("## Shared options\n")
    for title, group in shared.items():
        sections.append(group.replace(f"**{title}**:", f"### {title} options"))
    return "\n".join(_marked(line) for section in sections for line in section.split("\n"))


def _with_links(section: str, shared: dict[str, str]) -> str:
    """Replace the groups of options that stand elsewhere by one line of links."""
    links = []
    for title, group in shared.items():
        if group in section:
            section = section.replace(group, "")
            links.append(f"[{title}](#{title.lower().replace(' ', '-')}-options)")
    return f"{section.rstrip()}\n\n{_AND if links else ''}{', '.join(links)}\n"


def _marked(line: str) -> str:
    """Mark the options in a line of prose as code, so that their hyphens stay."""
    head, colon, prose = line.rpartition("`: ") if line.startswith("* ") else ("", "", line)
    if line.startswith(("    ", "heedful ")):
        return line  # an example
    return head + colon + re.sub(r"(?<![\w`-])--[a-z][a-z-]*", r"`\g<0>`", prose)


_HEADINGS = {
    "tokens": "Tokenizers",
    "decoding": "Search",
    "training": "Learning-rate schedules",
}
"""Headings of public names by the part of the package they come from; others are calls."""


def names() -> str:
    """Return the documentation of every public name but the models."""
    groups: dict[str, list[str]] = {"Calls and answers": [], **{h: [] for h in _HEADINGS.values()}}
    for name in _public():
        if (part := _part(name)) != "models":
            groups[_HEADINGS.get(part, "Calls and answers")].append(name)
    return "\n".join(
        f"## {heading}\n\n" + "\n".join(_documented(name) for name in group)
        for heading, group in groups.items()
    )


def models() -> str:
    """Return the documentation of the models and their configurations."""
    return "\n".join(
        f"## {name}\n\n{_documented(name)}" for name in _public() if _part(name) == "models"
    )


def _public() -> list[str]:
    return sorted((name for name in heedful.__all__ if name != "__version__"), key=str.lower)


def _part(name: str) -> str:
    return str(getattr(heedful, name).__module__.split(".")[1])


def _documented(name: str) -> str:
    value = getattr(heedful, name)
    kind = "function"
    if isinstance(value, type):
        kind = "exception" if issubclass(value, Exception) else "class"
    lines = [f".. auto{kind}:: heedful.{name}"]
    if kind == "class":
        # What every module of torch has is told there.
        lines += ["   :members:", "   :special-members: __call__", "   :inherited-members: Module"]
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


PARTS: dict[str, Callable[[], str]] = {"commands": commands, "names": names, "models": models}
"""What a page can ask for."""


_DATA = re.compile(
    r"str \| [~.\w]*PathLike\[str\] \| [~.\w]*Sequence\[str \| [~.\w]*PathLike\[str\]\] "
    r"\| [~.\w]*Sequence\[[~.\w]*Mapping\[str, [~.\w]*Any\]\] \| [~.\w]*Any"
)


def shorten(
    app: Sphinx, what: str, name: str, value: Any, options: Any, signature: str, result: str
) -> tuple[str, str] | None:
    """Write ``Data`` where a signature spells out all that it may be, and hide private names."""
    if not signature:
        return None
    return re.sub(r"= _\w+", "= ...", _DATA.sub("Data", signature)), result


_kept: list[str] = []


def keep(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Keep a docstring as it is before another extension changes it."""
    _kept[:] = lines


def restore(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Take the docstring of a field as it was."""
    if what == "attribute":
        lines[:] = _kept
