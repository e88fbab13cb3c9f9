"""Find phrases and entities in token ids, to mask them whole (Sun et al. 2019, section 3.2).

The search compares ids, not text, because at masking time only the ids of a text are available. A
walk down a trie of ids finds the longest phrase that begins at a token. The search then continues
after that phrase. Its time is linear in the number of tokens, for phrases of bounded length.

Shapes: T length of a sequence, V vocabulary.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.tokens import Tokenizer

_CONTEXTS = (("", ""), ("a", " "), ("。", ""))
"""Contexts that may change a phrase's ids: preceding text (nothing, a word, a mark) and
separator."""

_LEAF = -1
"""Key under which a trie node stores the phrase that ends at it. No token has this id."""

_Node = dict[int, "_Node | _Ends"]


class _Ends(NamedTuple):
    """Whether a phrase begins and ends with a letter or digit of a script that uses spaces."""

    first: bool
    last: bool


class Phrases:
    """Finds phrases in sequences of token ids.

    In scripts with spaces, a phrase must begin and end at word boundaries: ``new york`` does not
    match in ``new yorker``. A Chinese phrase may match anywhere.

    Args:
        texts: the phrases. Phrases with unknown or special tokens are left out.
        tokenizer: the model's tokenizer.

    Attributes:
        size: number of phrases, without those left out.
    """

    def __init__(self, texts: Iterable[str], tokenizer: Tokenizer) -> None:
        self._root: _Node = {}
        self._begins = np.zeros(len(tokenizer), np.bool_)
        special, size = {*tokenizer.all_special_ids}, 0
        contexts = tokenizer.encode_batch([context for context, _ in _CONTEXTS])
        for text in dict.fromkeys(" ".join(text.split()) for text in texts):
            ends = _Ends(_has_spaces(text[0]), _has_spaces(text[-1]))
            encoded = tokenizer.encode_batch(
                [context + between + text for context, between in _CONTEXTS]
            )
            forms = [
                row[len(context) :]
                for row, context in zip(encoded, contexts, strict=True)
                if row[: len(context)] == context and not special.intersection(row[len(context) :])
            ]
            for ids in filter(None, forms):
                self._add(ids, ends)
            size += any(forms)
        self.size = size
        boundaries = [_letter_boundaries(tokenizer, token_id) for token_id in range(len(tokenizer))]
        self._continues, self._ends_open = np.array(boundaries, np.bool_).T  # each (V,)

    def _add(self, ids: Sequence[int], ends: _Ends) -> None:
        node = self._root
        for token_id in ids:
            branch = node.setdefault(token_id, {})
            assert isinstance(branch, dict)
            node = branch
        node[_LEAF] = ends
        self._begins[ids[0]] = True

    def spans(self, ids: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each phrase, from left to right, without overlap.

        Args:
            ids: a sequence, special tokens included. Shape (T,).
        """
        prev_end = 0
        for start in np.flatnonzero(self._begins[ids]).tolist():
            if start >= prev_end and (end := self._longest(ids, start)):
                yield start, end
                prev_end = end

    def _longest(self, ids: NDArray[np.int32], start: int) -> int:
        """Return the end of the longest phrase that begins at ``start``; 0 if there is none."""
        node, end = self._root, 0
        in_word = start > 0 and self._continues[ids[start]] and self._ends_open[ids[start - 1]]
        for i in range(start, len(ids)):
            branch = node.get(int(ids[i]))
            if not isinstance(branch, dict):
                break
            node = branch
            ends = node.get(_LEAF)
            if isinstance(ends, _Ends) and not (ends.first and in_word):
                cuts_word = i + 1 < len(ids) and self._continues[ids[i + 1]] and ends.last
                end = end if cuts_word else i + 1
        return end


def _letter_boundaries(tokenizer: Tokenizer, token_id: int) -> tuple[bool, bool]:
    """Return whether a token continues a word with a letter, and whether it ends in a letter.

    The bytes of an incomplete character may belong to a letter.
    """
    text = tokenizer.text_of([token_id])
    if not text:
        return False, False
    continues = tokenizer.continues_word(token_id) and _may_be_letter(text[0])
    return continues, _may_be_letter(text[-1])


def _may_be_letter(character: str) -> bool:
    return _has_spaces(character) or character == "\N{REPLACEMENT CHARACTER}"


def _has_spaces(character: str) -> bool:
    """Return whether a character is a letter or digit of a script with spaces between words."""
    name = unicodedata.name(character, "")
    return unicodedata.category(character)[0] in "LNM" and not name.startswith(_WITHOUT_SPACES)


_WITHOUT_SPACES = (
    *("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA"),
    *("THAI", "LAO", "KHMER", "MYANMAR"),
)
"""Prefixes of Unicode letter names in scripts without spaces between words."""
