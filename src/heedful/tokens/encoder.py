"""Encoders turn texts into pieces; this is what all of them share.

An encoder cuts a text into chunks whose pieces depend on nothing outside the chunk. The pieces of a
text are those of its chunks, one after the other, and each chunk is worked out once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast

from heedful.tokens.batch import Words
from heedful.tokens.pieces import PieceBatch, Pieces

if TYPE_CHECKING:  # numpy takes a while to be imported, and a few texts do without
    from heedful.tokens.arrays import PieceArrays
    from heedful.tokens.bulk import BulkEncoder

MAX_CHUNK = 64
"""Characters of the longest chunk that is remembered."""
MAX_CHUNKS = 2**17
"""Chunks whose ids are remembered before all are forgotten; some 25 MB."""
MAX_LOCATED_CHUNKS = 2**16
"""The same for chunks with the places of their pieces, which take more room."""

BULK = 2**13
"""Characters from which on a batch is encoded by operations on arrays."""
BEFORE_BULK = 2**15
"""Characters that come in such batches before the arrays are made that this needs."""
_LOCATED = 4
"""One character with offsets counts like so many without: the other way takes longer for them."""

T = TypeVar("T")


class PieceEncoder(Protocol):
    """Turns texts into pieces, and tokens back into text."""

    writes_spaces: ClassVar[bool]
    """Whether spaces are in tokens; else they stand between all that begin a word."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text."""

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice that each came from, and the word it is of."""

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceBatch:
        """Return the pieces of all texts, with offsets if ``located``."""

    def check_words(self) -> None:
        """Raise a `UserError` if texts cannot be given as words."""

    def continues_word(self, token: str) -> bool:
        """Tell whether a token goes on with the word before it."""

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens to text.

        Args:
            tokens: the tokens.
            mark: whether the first token keeps its mark (``##``, or a space) at the start.
        """


class Memory(dict[str, T], Generic[T]):
    """A cache: chunk -> the value that a function gives for it.

    Forgetting changes no result, since a value depends on its chunk alone.

    Args:
        make: computes the value of a chunk.
        limit: the most chunks to remember; at the next one, all are forgotten.
    """

    def __init__(self, make: Callable[[str], T], limit: int) -> None:
        self._make = make
        self._limit = limit

    def remember(self, values: Mapping[str, T]) -> None:
        """Put in the values of chunks, which were computed elsewhere; of too many, the first."""
        if len(self) + len(values) > self._limit:
            self.clear()
        self |= islice(values.items(), self._limit)

    def forget(self, chunks: Iterable[str]) -> None:
        """Take out chunks, where they are remembered."""
        for chunk in chunks:
            self.pop(chunk, None)

    def __missing__(self, chunk: str) -> T:
        value = self._make(chunk)
        if len(chunk) <= MAX_CHUNK:
            if len(self) >= self._limit:
                self.clear()
            self[chunk] = value
        return value


class LateBulk:
    """Encodes many texts at once by operations on arrays (`bulk.py`), once that pays.

    What it needs is made when enough texts have come, and does not go to other processes.

    Args:
        make: makes the encoder of many texts.
        pays: whether this tokenizer can be encoded that way at all.
    """

    def __init__(self, make: Callable[[], "BulkEncoder"], *, pays: bool = True) -> None:
        self._make = make
        self._pays = pays
        self._size = 0
        self.encoder: BulkEncoder | None = None
        """What has been made."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "encoder": None}  # it is large, and soon made anew

    def encode(self, texts: Sequence[str], *, located: bool) -> "PieceArrays | None":
        """Return the pieces of texts, with offsets if ``located``; None where it does not pay."""
        size = sum(map(len, texts)) * (_LOCATED if located else 1)
        if size < BULK or not self._pays:
            return None
        self._size += size
        if self._size < BEFORE_BULK:
            return None
        if self.encoder is None:
            self.encoder = self._make()
        return self.encoder.encode(texts, located=located)


class ChunkPieces(NamedTuple):
    """The pieces of one chunk, offsets and words counted from its start."""

    ids: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    words: tuple[int, ...]
    size: int
    """Number of pieces."""
    word_count: int


def pieces_of_chunks(chunks: Iterable[ChunkPieces], starts: Iterable[int]) -> Pieces:
    """Put together the pieces of at least one chunk, given where each chunk starts in the text."""
    ids, begins, ends, words, sizes, word_counts = zip(*chunks, strict=True)
    # Where each chunk starts, and how many words stand before it; then both for each piece.
    firsts = accumulate(word_counts, initial=0)
    shifts = list(chain.from_iterable(map(repeat, starts, sizes)))
    word_shifts = chain.from_iterable(map(repeat, firsts, sizes))
    return Pieces(
        ids=list(chain.from_iterable(ids)),
        offsets=list(
            zip(
                map(add, chain.from_iterable(begins), shifts),
                map(add, chain.from_iterable(ends), shifts),
                strict=True,
            )
        ),
        words=list(map(add, chain.from_iterable(words), word_shifts)),
    )


def batch_of(
    encoder: PieceEncoder, texts: Sequence[Words], *, words: bool, located: bool
) -> PieceBatch:
    """Return the pieces of texts, or with ``words`` of lists of words, each word by itself."""
    if not words:
        return encoder.batch(cast("Sequence[str]", texts), located=located)
    encoder.check_words()
    pieces = encoder.batch([*chain.from_iterable(texts)], located=located)
    return pieces.grouped([len(text) for text in texts])


def pieces_of(encoder: PieceEncoder, text: Words) -> Pieces:
    """Return the pieces of a text, or of a list of words, each word by itself."""
    if isinstance(text, str):
        return encoder.pieces(text)
    all_pieces = Pieces()
    for index, word in enumerate(text):
        pieces = encoder.pieces(word)
        all_pieces.ids.extend(pieces.ids)
        all_pieces.offsets.extend(pieces.offsets)
        all_pieces.words.extend([index] * len(pieces.ids))
    return all_pieces


def special_pattern(tokens: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches special tokens, the longest one where several begin."""
    return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))


def special_parts(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, bool]]:
    """Cut a text at its special tokens. Yield each part, and whether it is a special token."""
    start = 0
    for match in pattern.finditer(text):
        yield text[start : match.start()], False
        yield match.group(), True
        start = match.end()
    yield text[start:], False
