"""Small files of SentencePiece, written field by field."""

import struct
from collections.abc import Sequence
from pathlib import Path

from heedful.tokens.sentencepiece_file import PieceKind, read_model

Piece = tuple[str, float, PieceKind]


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def contents(
    pieces: Sequence[Piece], *, charsmap: bytes = b"", model_type: int = 1, unknown_id: int = 0
) -> bytes:
    """Return a file with some pieces."""
    written = b"".join(
        message(
            1,
            message(1, piece.encode())
            + varint(2 << 3 | 5)
            + struct.pack("<f", score)
            + number(3, kind),
        )
        for piece, score, kind in pieces
    )
    training = number(3, model_type) + number(40, unknown_id)
    return written + message(2, training) + message(3, message(1, b"x") + message(2, charsmap))


def xlm_roberta_folder(albert: Path, to: Path) -> Path:
    """Write a folder with a small vocabulary and the rules by which ALBERT normalises."""
    first = [("<unk>", PieceKind.UNKNOWN), ("<s>", PieceKind.CONTROL), ("</s>", PieceKind.CONTROL)]
    return _folder(albert, to / "sentencepiece.bpe.model", first, "xlm-roberta")


def big_bird_folder(albert: Path, to: Path) -> Path:
    """Write the same for BigBird, whose special tokens are all in the file."""
    control = PieceKind.CONTROL
    names = ("<pad>", "</s>", "<s>", "[CLS]", "[SEP]", "[MASK]")
    first = [*((name, control) for name in names), ("<unk>", PieceKind.UNKNOWN)]
    return _folder(albert, to / "spiece.model", first, "big_bird")


def deberta_v2_folder(albert: Path, to: Path) -> Path:
    """Write the same for DeBERTa v2, whose mask is in no file."""
    first = [(name, PieceKind.CONTROL) for name in ("[PAD]", "[CLS]", "[SEP]")]
    return _folder(albert, to / "spm.model", [*first, ("[UNK]", PieceKind.UNKNOWN)], "deberta-v2")


def _folder(
    albert: Path, path: Path, first: Sequence[tuple[str, PieceKind]], model_type: str
) -> Path:
    kinds = PieceKind
    whole = [("@@", kinds.USER_DEFINED), ("(x)", kinds.USER_DEFINED)]
    words = [
        *("▁", "▁the", "▁un", "aff", "able", "▁a", "▁b", "ab", "▁hel", "lo", "the", "▁1", "00")
    ]
    words += [*",.'\"éがか中国", "北京", "▁é"]
    letters = [*"abcdefghijklmnopqrstuvwxyzABCDEFMSK[]?0123456789"]
    pieces = [(piece, 0.0, kind) for piece, kind in (*first, *whole)]
    pieces += [
        (piece, -2.0 - rank / 8 - 3 * (len(piece) == 1), kinds.NORMAL)
        for rank, piece in enumerate(dict.fromkeys([*words, *letters]))
    ]
    charsmap = read_model(albert / "spiece.model").charsmap
    unknown = [kind for _, kind in first].index(kinds.UNKNOWN)
    path.write_bytes(contents(pieces, charsmap=charsmap, unknown_id=unknown))
    path.with_name("config.json").write_text(f'{{"model_type": "{model_type}"}}')
    return path.parent
