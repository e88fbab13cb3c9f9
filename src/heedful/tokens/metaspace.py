"""Texts -> token ids as SentencePiece does it: words begin with ``▁`` in the place of a space.

The order is that of the compiled reference: added tokens are matched whole, what is between them is
rewritten (`rewriting.py`), split before each ``▁``, and each such word cut (`unigram.py`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from heedful.tokens.characters import WHITE_SPACE
from heedful.tokens.encoder import MAX_CHUNKS, Memory
from heedful.tokens.pieces import PieceLists, Pieces
from heedful.tokens.rewriting import Rewriting
from heedful.tokens.unigram import Cut, Unigram

UNDERLINE = "▁"
_STRIPPED = "".join(map(chr, WHITE_SPACE))
_find_words = re.compile("▁?[^▁]+|▁").finditer


@dataclass(frozen=True, kw_only=True, slots=True)
class AddedTokens:
    """Tokens that are matched whole wherever they stand in a text."""

    ids: Mapping[str, int]
    lstrip: frozenset[str] = frozenset()
    """Those that take the white space before them with them."""


class UnigramEncoder:
    """Turns texts into ids.

    Args:
        unigram: cuts words.
        rewriting: what becomes of a text before it is split into words.
        tokens: the tokens, in the order of their ids.
        added: tokens that are matched whole, before anything else is done.
    """

    def __init__(
        self,
        unigram: Unigram,
        rewriting: Rewriting,
        tokens: Sequence[str],
        added: AddedTokens,
    ) -> None:
        self._unigram = unigram
        self._rewriting = rewriting
        self._tokens = tokens
        self._added = added
        longest_first = sorted(added.ids, key=len, reverse=True)
        self._find_added = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._words = Memory(unigram.cut, MAX_CHUNKS)

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceLists:
        """Return the pieces of all texts, with offsets if ``located``."""
        if not located:
            return PieceLists.of(self.ids(texts))
        pieces = [self.pieces(text) for text in texts]
        return PieceLists.of([one.ids for one in pieces], [one.offsets for one in pieces])

    def check_words(self) -> None:
        """Do nothing: texts can be given as words."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""
        return [self.pieces(text).ids for text in texts]

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice that each came from, and the word it is of.

        A piece that begins with a space has that in its slice; of several spaces, the last.
        """
        pieces = Pieces()
        count = 0
        for start, part, token_id in self._parts(text):
            if token_id is not None:
                pieces.ids.append(token_id)
                pieces.offsets.append((start, start + len(part)))
                pieces.words.append(count)
                count += 1
                continue
            for cut, sources in self._cuts(part):
                begin = 0
                for piece_id, end in cut:
                    first, last = sources[begin], sources[end - 1]
                    pieces.ids.append(piece_id)
                    pieces.offsets.append((start + min(first, last), start + max(first, last) + 1))
                    pieces.words.append(count)
                    begin = end
                count += 1
        return pieces

    def continues_word(self, token: str) -> bool:
        """Tell whether a token goes on with the word before it: it does not begin with a space."""
        return token not in self._added.ids and not token.startswith(UNDERLINE)

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens to the text they spell."""
        text = "".join(tokens).replace(UNDERLINE, " ")
        return text.removeprefix(" ")

    def _parts(self, text: str) -> Iterator[tuple[int, str, int | None]]:
        """Cut a text at added tokens: a part's start, its text, and its id if it is one."""
        start = 0
        for match in self._find_added.finditer(text):
            before, token = text[start : match.start()], match.group()
            if token in self._added.lstrip:
                kept = before.rstrip(_STRIPPED)
                yield start, kept, None
                yield start + len(kept), before[len(kept) :] + token, self._added.ids[token]
            else:
                yield start, before, None
                yield match.start(), token, self._added.ids[token]
            start = match.end()
        yield start, text[start:], None

    def _cuts(self, part: str) -> Iterator[tuple[Cut, list[int]]]:
        """Yield the cut of each word of a part, and the sources of the word's characters."""
        text, sources = self._rewriting.sourced(part)
        if not text:
            return
        text = text.replace(" ", UNDERLINE)
        if not text.startswith(UNDERLINE):
            text, sources = UNDERLINE + text, [sources[0], *sources]
        for match in _find_words(text):
            yield self._words[match.group()], sources[match.start() : match.end()]
