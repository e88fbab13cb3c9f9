"""The texts of pages, in English or in Chinese.

English texts are written in place. ``chinese.json`` has their Chinese translations: of *phrases*,
which are written in templates and scripts, and of *sentences*, which come whole from Python code,
such as the card of a run. Placeholders of values are ``{}`` in English, and ``{0}`` and ``{1}`` in
Chinese::

    {{ phrase("All {} tokens were read.", count) }}      in a template
    phrase`All ${count} tokens were read.`               in a script
    {{ sentence(card) }}                                 in a template; sentence(card) in a script

A document has its body in both languages, and ``look.js`` shows the one that the browser prefers.
Large parts that are the same in both languages are only in the English body. An element with
``data-part`` in the Chinese body is replaced by the English element of the same name.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from markupsafe import Markup, escape

_PHRASE = re.compile(r"phrase`([^`]*)`")


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """A language for rendering templates."""

    name: str
    """Its language tag in HTML."""
    phrases: Mapping[str, str]
    """Translated phrases by their English; empty for English."""
    sentences: Mapping[str, str]

    def phrase(self, english: str, *values: object) -> Markup:
        """Return a translated phrase with its values filled in. Values are escaped unless `Markup`.

        Raises:
            KeyError: the phrase has no translation.
        """
        translation = self.phrases[english] if self.phrases else english
        return Markup(escape(translation)).format(*values)

    def sentence(self, english: str) -> str:
        """Return a translated sentence, or the English if there is no translation."""
        if english in self.sentences:
            return self.sentences[english]
        for pattern, translation in _patterns(tuple(self.sentences.items())):
            if match := pattern.fullmatch(english):
                return translation.format(*match.groups())
        return english


ENGLISH = Language(name="en", phrases={}, sentences={})


@cache
def chinese() -> Language:
    """Return the Chinese translations."""
    text = (resources.files("heedful.pages") / "chinese.json").read_text(encoding="utf-8")
    return Language(name="zh-CN", **json.loads(text))


def phrases_in(scripts: Iterable[str]) -> list[str]:
    """Return the phrases in scripts, with ``{}`` for each value."""
    return [
        re.sub(r"\$\{[^{}]*\}", "{}", phrase)
        for script in scripts
        for phrase in _PHRASE.findall(script)
    ]


@cache
def _patterns(sentences: tuple[tuple[str, str], ...]) -> list[tuple[re.Pattern[str], str]]:
    """Return a regular expression and the translation of each sentence with values."""
    return [
        (re.compile(re.escape(english).replace(r"\{\}", "(.+?)"), re.DOTALL), translation)
        for english, translation in sentences
        if "{}" in english
    ]
