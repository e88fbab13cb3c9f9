"""What pages say, in English or in Chinese.

The English stands where it is said. ``chinese.json`` has the Chinese of it: of *phrases*, which
templates and scripts say, and of *sentences*, which come as a whole from the code, such as the
card of a run. ``{}`` stands for a value in English, ``{0}`` and ``{1}`` for the same in Chinese::

    {{ phrase("All {} tokens were read.", count) }}      in a template
    phrase`All ${count} tokens were read.`               in a script
    {{ sentence(card) }}                                 in a template; sentence(card) in a script

A document holds its body in both languages; ``look.js`` shows the one that the browser asks for.
What is large and the same in both stands in the English body alone: an element with ``data-part``
of the Chinese one is replaced by that of the same name.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from markupsafe import Markup, escape

_SAID = re.compile(r"phrase`([^`]*)`")


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """A language that templates are filled in."""

    name: str
    """As HTML names it."""
    phrases: Mapping[str, str]
    """Its phrases by the English ones; none for English itself."""
    sentences: Mapping[str, str]

    def phrase(self, english: str, *values: object) -> Markup:
        """Return a phrase of a template with its values, which are escaped unless they are markup.

        Raises:
            KeyError: the language has no such phrase.
        """
        said = self.phrases[english] if self.phrases else english
        return Markup(escape(said)).format(*values)

    def sentence(self, english: str) -> str:
        """Return what comes whole from the code; one that is not known stays English."""
        if english in self.sentences:
            return self.sentences[english]
        for pattern, said in _patterns(tuple(self.sentences.items())):
            if match := pattern.fullmatch(english):
                return said.format(*match.groups())
        return english


ENGLISH = Language(name="en", phrases={}, sentences={})


@cache
def chinese() -> Language:
    """Return Chinese, which is read once."""
    text = (resources.files("heedful.pages") / "chinese.json").read_text(encoding="utf-8")
    return Language(name="zh-CN", **json.loads(text))


def said_by(scripts: Iterable[str]) -> list[str]:
    """Return the phrases that scripts say, with ``{}`` for each value."""
    return [
        re.sub(r"\$\{[^{}]*\}", "{}", said) for script in scripts for said in _SAID.findall(script)
    ]


@cache
def _patterns(sentences: tuple[tuple[str, str], ...]) -> list[tuple[re.Pattern[str], str]]:
    """Return what recognises the sentences that hold values."""
    return [
        (re.compile(re.escape(english).replace(r"\{\}", "(.+?)"), re.DOTALL), said)
        for english, said in sentences
        if "{}" in english
    ]
