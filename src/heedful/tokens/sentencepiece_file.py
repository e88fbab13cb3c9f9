"""Read SentencePiece model files (``spiece.model``, ``.spm``).

A file is one Protocol Buffers message. Only the fields that affect tokenization are read.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from heedful.errors import UserError
from heedful.files import size_of
from heedful.protobuf import DamageError, fields_of

MAX_BYTES = 64 * 2**20

UNIGRAM = 1
_MODELS = {UNIGRAM: "unigram", 2: "BPE", 3: "word", 4: "char"}


class PieceKind(IntEnum):
    """The type of a piece; the numbers are those of the file format."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class SentencePieceModel:
    """The contents of a model file."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    """The log-probability of each piece."""
    kinds: tuple[PieceKind, ...]
    unknown_id: int
    byte_fallback: bool
    """Whether a character that no piece contains is written as bytes."""
    charsmap: bytes
    """Normalisation rules; see `charsmap.py`. Empty if there are none."""
    contents: bytes
    """The whole file."""


def read_model(path: Path) -> SentencePieceModel:
    """Read the file of a unigram model.

    Raises:
        UserError: the file is missing, larger than 64 MiB, damaged, or of another kind of model.
    """
    if (size := size_of(path)) > MAX_BYTES:
        raise UserError(f"{path}: {size:,} bytes of model; at most {MAX_BYTES:,} are read")
    return parse_model(path.read_bytes(), source=str(path))


def parse_model(contents: bytes, *, source: str) -> SentencePieceModel:
    """Parse the contents of a model file.

    Args:
        contents: the whole file.
        source: name of the file, for messages.

    Raises:
        UserError: see `read_model`.
    """
    try:
        return _model(contents)
    except DamageError as error:
        raise UserError(f"{source}: not a model of SentencePiece, or damaged: {error}") from None


def _model(contents: bytes) -> SentencePieceModel:
    pieces: list[str] = []
    scores: list[float] = []
    kinds: list[PieceKind] = []
    training: dict[int, int | bytes] = {}
    normalizing: dict[int, int | bytes] = {}
    for number, value in fields_of(contents):
        if number > 3:
            continue
        if not isinstance(value, bytes):
            raise DamageError(f"field {number} is a number")
        if number == 1:
            fields = dict(fields_of(value))
            pieces.append(_text(fields, 1))
            scores.append(_score(fields.get(2, 0)))
            kinds.append(_kind(fields.get(3, PieceKind.NORMAL)))
        elif number == 2:
            training = dict(fields_of(value))
        else:
            normalizing = dict(fields_of(value))
    if not pieces:
        raise DamageError("it has no pieces")
    kind = _number(training, 3, UNIGRAM)
    if kind != UNIGRAM:
        raise DamageError(f"a {_MODELS.get(kind, kind)} model is not supported, only a unigram one")
    unknown_id = _number(training, 40, 0)
    if unknown_id >= len(pieces):
        raise DamageError(f"the unknown piece is number {unknown_id} of {len(pieces)}")
    charsmap = normalizing.get(2, b"")
    if not isinstance(charsmap, bytes):
        raise DamageError("its rules for normalising are a number")
    return SentencePieceModel(
        pieces=tuple(pieces),
        scores=tuple(scores),
        kinds=tuple(kinds),
        unknown_id=unknown_id,
        byte_fallback=bool(_number(training, 35, 0)),
        charsmap=charsmap,
        contents=contents,
    )


def _text(fields: Mapping[int, int | bytes], number: int) -> str:
    value = fields.get(number, b"")
    if not isinstance(value, bytes):
        raise DamageError("a piece is a number")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise DamageError(f"the piece {value!r:.80} is not UTF-8") from None


def _score(value: int | bytes) -> float:
    if value == 0:
        return 0.0
    if not isinstance(value, bytes) or len(value) != 4:
        raise DamageError("the score of a piece is not of four bytes")
    (score,) = struct.unpack("<f", value)
    if not math.isfinite(score):
        raise DamageError(f"a piece has the score {score}")
    return float(score)


def _kind(value: int | bytes) -> PieceKind:
    try:
        return PieceKind(value)  # type: ignore[arg-type]  # bytes also raise ValueError
    except ValueError:
        raise DamageError(f"a piece is of kind {value!r:.80}") from None


def _number(fields: Mapping[int, int | bytes], number: int, default: int) -> int:
    value = fields.get(number, default)
    if not isinstance(value, int):
        raise DamageError(f"field {number} is no number")
    return value
