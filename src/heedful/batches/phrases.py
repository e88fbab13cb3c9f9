"""Phrases and entities in sequences of ids, to be hidden whole (Sun et al. 2019, section 3.2).

Ids are compared, not text: a sequence is all that is left of a text when its tokens are hidden. A
walk down a tree of ids finds the longest phrase that begins at a token. It goes on after that, so
its time is linear in the tokens, for phrases of up to a given length.

Shapes: T length of a sequence, V vocabulary.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heedful.tokens import Tokenizer

_CONTEXTS = (("", ""), ("a", " "), ("。", ""))
"""What may stand before a phrase and change its ids, and between: nothing, a word, a mark."""

_LEAF = -1
"""Where a node of the tree keeps the phrase that ends there; no token has this id."""

_Node = dict[int, "_Node | _Ends"]


class _Ends(NamedTuple):
    """Whether a phrase begins and ends with a letter or a digit of a script with spaces."""

    first: bool
    last: bool


class Phrases:
    """Finds phrases in sequences of ids.

    A phrase is found where a word begins and ends, as far as its script has words: ``new york`` is
    not in ``new yorker``, while Chinese may stand anywhere.

    Args:
        texts: the phrases. Those with unknown or special tokens are left out.
        tokenizer: the model's tokenizer.

    Attributes:
        size: how many phrases there are, those left out not counted.
    """

    def __init__(self, texts: Iterable[str], tokenizer: Tokenizer) -> None:
        self._root: _Node = {}
        self._begins = np.zeros(len(tokenizer), np.bool_)
        special, kept = {*tokenizer.all_special_ids}, 0
        before = tokenizer.encode_batch([context for context, _ in _CONTEXTS])
        for text in dict.fromkeys(" ".join(text.split()) for text in texts):
            ends = _Ends(_has_spaces(text[0]), _has_spaces(text[-1]))
            whole = tokenizer.encode_batch([left + between + text for left, between in _CONTEXTS])
            forms = [
                row[len(left) :]
                for row, left in zip(whole, before, strict=True)
                if row[: len(left)] == left and not special.intersection(row[len(left) :])
            ]
            for ids in filter(None, forms):
                self._add(ids, ends)
            kept += any(forms)
        self.size = kept
        edges = [_edges(tokenizer, token_id) for token_id in range(len(tokenizer))]
        self._goes_on, self._ends_open = np.array(edges, np.bool_).T  # each (V,)

    def _add(self, ids: Sequence[int], ends: _Ends) -> None:
        node = self._root
        for token_id in ids:
            branch = node.setdefault(token_id, {})
            assert isinstance(branch, dict)
            node = branch
        node[_LEAF] = ends
        self._begins[ids[0]] = True

    def spans(self, ids: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
        """Yield where phrases begin and end, from left to right, none within another.

        Args:
            ids: a sequence, special tokens included. Shape (T,).
        """
        free = 0
        for start in np.flatnonzero(self._begins[ids]).tolist():
            if start >= free and (end := self._longest(ids, start)):
                yield start, end
                free = end

    def _longest(self, ids: NDArray[np.int32], start: int) -> int:
        """Return where the longest phrase that begins at a token ends; 0 if there is none."""
        node, end = self._root, 0
        inside = start > 0 and self._goes_on[ids[start]] and self._ends_open[ids[start - 1]]
        for at in range(start, len(ids)):
            branch = node.get(int(ids[at]))
            if not isinstance(branch, dict):
                break
            node = branch
            ends = node.get(_LEAF)
            if isinstance(ends, _Ends) and not (ends.first and inside):
                cut = at + 1 < len(ids) and self._goes_on[ids[at + 1]] and ends.last
                end = end if cut else at + 1
        return end


def _edges(tokenizer: Tokenizer, token_id: int) -> tuple[bool, bool]:
    """Tell whether a token goes on with a word of letters, and whether a letter ends it.

    Bytes of a character that other tokens complete may be of a letter.
    """
    text = tokenizer.text_of([token_id])
    if not text:
        return False, False
    goes_on = tokenizer.continues_word(token_id) and _may_be_letter(text[0])
    return goes_on, _may_be_letter(text[-1])


def _may_be_letter(character: str) -> bool:
    return _has_spaces(character) or character == "\N{REPLACEMENT CHARACTER}"


def _has_spaces(character: str) -> bool:
    """Tell whether a character is a letter or digit of a script with spaces between words."""
    name = unicodedata.name(character, "")
    return unicodedata.category(character)[0] in "LNM" and not name.startswith(_WITHOUT_SPACES)


_WITHOUT_SPACES = (
    *("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA"),
    *("THAI", "LAO", "KHMER", "MYANMAR"),
)
"""How the names of letters begin whose scripts put no spaces between words."""
