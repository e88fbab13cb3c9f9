"""Common parts of all encoders, which convert texts to pieces.

An encoder splits a text into chunks whose pieces depend on nothing outside the chunk. The pieces of
a text are the concatenated pieces of its chunks, and the pieces of each chunk are cached.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast

from heedful.tokens.batch import Words
from heedful.tokens.pieces import PieceBatch, Pieces

if TYPE_CHECKING:  # importing numpy is slow, and a few short texts do not need it
    from heedful.tokens.arrays import PieceArrays
    from heedful.tokens.bulk import BulkEncoder

MAX_CHUNK = 64
"""Characters of the longest chunk that is cached."""
MAX_CHUNKS = 2**17
"""Number of chunks whose ids are cached before the cache is cleared; about 25 MB."""
MAX_LOCATED_CHUNKS = 2**16
"""Like ``MAX_CHUNKS``, for chunks cached with offsets, which take more memory."""

BULK = 2**13
"""Minimum number of characters in a batch to encode it with array operations."""
MIN_BULK_CHARACTERS = 2**15
"""Number of characters in batches of at least this size before the array encoder is built."""
_OFFSETS_WEIGHT = 4
"""Weight of a character with offsets, since encoding texts one by one is slower with offsets."""

T = TypeVar("T")


class PieceEncoder(Protocol):
    """Converts texts to pieces, and tokens back to text."""

    writes_spaces: ClassVar[bool]
    """Whether tokens contain spaces. Otherwise a space precedes each token that begins a word."""

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text."""

    def pieces(self, text: str) -> Pieces:
        """Return the token ids of a text, with the offsets and the word index of each."""

    def batch(self, texts: Sequence[str], *, located: bool) -> PieceBatch:
        """Return the pieces of all texts, with offsets if ``located``."""

    def check_words(self) -> None:
        """Raise a `UserError` if this encoder does not accept texts split into words."""

    def spelled(self, text: str) -> list[str]:
        """Return the tokens of a text.

        A unigram model shows the text that an unknown token stands for, as the reference does.
        """

    def continues_word(self, token: str) -> bool:
        """Return whether a token continues the word before it."""

    def join(self, tokens: Sequence[str], *, mark: bool) -> str:
        """Join tokens into text.

        Args:
            tokens: the tokens.
            mark: whether the first token keeps its leading mark (``##`` or a space).
        """


class ChunkCache(dict[str, T], Generic[T]):
    """A cache of a function's value for each chunk.

    Clearing it changes no result, since a value depends only on its chunk.

    Args:
        make: computes the value of a chunk.
        limit: maximum number of cached chunks. The next chunk clears the cache.
    """

    def __init__(self, make: Callable[[str], T], limit: int) -> None:
        self._make = make
        self._limit = limit

    def store(self, values: Mapping[str, T]) -> None:
        """Store values that were computed elsewhere; at most the first ``limit`` of them."""
        if len(self) + len(values) > self._limit:
            self.clear()
        self |= islice(values.items(), self._limit)

    def discard(self, chunks: Iterable[str]) -> None:
        """Remove chunks from the cache, if present."""
        for chunk in chunks:
            self.pop(chunk, None)

    def __missing__(self, chunk: str) -> T:
        value = self._make(chunk)
        if len(chunk) <= MAX_CHUNK:
            if len(self) >= self._limit:
                self.clear()
            self[chunk] = value
        return value


class LazyBulkEncoder:
    """Encodes batches of texts with array operations (`bulk.py`), once that pays off.

    The array encoder is built after enough texts have come. It is not pickled for other processes.

    Args:
        make: builds the array encoder.
        pays: whether this tokenizer supports array encoding at all.
    """

    def __init__(self, make: Callable[[], "BulkEncoder"], *, pays: bool = True) -> None:
        self._make = make
        self._pays = pays
        self._size = 0
        self.encoder: BulkEncoder | None = None
        """The array encoder; None until it is built."""

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "encoder": None}  # large, and quick to rebuild

    def encode(self, texts: Sequence[str], *, located: bool) -> "PieceArrays | None":
        """Return the pieces of texts, with offsets if ``located``; None if it does not pay off."""
        size = sum(map(len, texts)) * (_OFFSETS_WEIGHT if located else 1)
        if size < BULK or not self._pays:
            return None
        self._size += size
        if self._size < MIN_BULK_CHARACTERS:
            return None
        if self.encoder is None:
            self.encoder = self._make()
        return self.encoder.encode(texts, located=located)


class ChunkPieces(NamedTuple):
    """The pieces of one chunk, with offsets and word indices relative to its start."""

    ids: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    words: tuple[int, ...]
    size: int
    """Number of pieces."""
    word_count: int

    @classmethod
    def of(cls, pieces: Sequence[tuple[int, int, int, int]], word_count: int) -> "ChunkPieces":
        """Gather pieces, given as the id, the begin, the end and the word index of each."""
        ids, begins, ends, words = zip(*pieces, strict=True) if pieces else ((),) * 4
        return cls(ids, begins, ends, words, len(ids), word_count)


def pieces_of_chunks(chunks: Iterable[ChunkPieces], starts: Iterable[int]) -> Pieces:
    """Join the pieces of one or more chunks, given the start of each chunk in the text."""
    ids, begins, ends, words, sizes, word_counts = zip(*chunks, strict=True)
    # The index of each chunk's first word, then the offset and word shift of each piece.
    first_words = accumulate(word_counts, initial=0)
    shifts = list(chain.from_iterable(map(repeat, starts, sizes)))
    word_shifts = chain.from_iterable(map(repeat, first_words, sizes))
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
    """Return the pieces of texts; with ``words``, of lists of words, encoded word by word."""
    if not words:
        return encoder.batch(cast("Sequence[str]", texts), located=located)
    encoder.check_words()
    pieces = encoder.batch([*chain.from_iterable(texts)], located=located)
    return pieces.grouped([len(text) for text in texts])


def pieces_of(encoder: PieceEncoder, text: Words) -> Pieces:
    """Return the pieces of a text, or of a list of words, encoded word by word."""
    if isinstance(text, str):
        return encoder.pieces(text)
    all_pieces = Pieces()
    for index, word in enumerate(text):
        pieces = encoder.pieces(word)
        all_pieces.ids.extend(pieces.ids)
        all_pieces.offsets.extend(pieces.offsets)
        all_pieces.words.extend([index] * len(pieces.ids))
    return all_pieces


def spelled_of(encoder: PieceEncoder, text: Words) -> list[str]:
    """Return the tokens of a text, or of a list of words; see `PieceEncoder.spelled`."""
    words = [text] if isinstance(text, str) else text
    return list(chain.from_iterable(map(encoder.spelled, words)))
