import bz2
import errno
import gzip
import io
import lzma
import os
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from heedful.errors import UserError
from heedful.reading.lines import MAX_LINE_BYTES, check_file, read_lines
from heedful.settings import ColumnSettings


def error_of(path: Path, max_bytes: int = MAX_LINE_BYTES) -> str:
    with pytest.raises(UserError) as caught:
        list(read_lines(path, max_bytes))
    return str(caught.value)


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("one\r\ntwo\u2028\x0b\x0c\x1c\x85still two\rand two\n\nlast".encode())
    assert list(read_lines(path)) == [
        "one\r\n",
        "two\u2028\x0b\x0c\x1c\x85still two\rand two\n",
        "\n",
        "last",
    ]


def test_byte_order_mark_is_dropped_at_the_start_only(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\n\ufefftwo\n".encode())
    assert list(read_lines(path)) == ["one\n", "\ufefftwo\n"]


def test_utf8_with_a_mark_is_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\n\ufefftwo\r".encode())
    ColumnSettings(encoding="utf-8-sig")  # is let through
    assert list(read_lines(path, encoding="utf-8-sig")) == ["one\r\n", "\ufefftwo\r"]


def zstandard(content: bytes) -> bytes:
    """Compress as multithreaded programs do, with a skippable frame."""
    packed: bytes = pyarrow.Codec("zstd").compress(content, asbytes=True)
    return b"\x50\x2a\x4d\x18\x04\0\0\0size" + packed


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"PK\x03\x04\x14\0\x06\0",
            "line 1: byte 6 is NUL; this is not a text file; it looks like an E",
        ),
        (
            b"PK\x03\x04\n\0",
            "line 2: byte 1 is NUL; this is not a text file; it looks like an Excel",
        ),
        (
            b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n",
            "not UTF-8 (byte 2 is 0xe2; it looks like a PDF file: save",
        ),
        (b"PAR1\x15\0", "it looks like a Parquet file: its name must end in .parquet"),
    ],
)
def test_a_file_that_is_no_text_is_known_by_its_start(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    assert message in error_of(path)
    path.write_bytes(content[:4] + b" is a text\n")
    assert len(list(read_lines(path))) == 1


PACK = {
    ".gz": lambda content: gzip.compress(content, 1, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lambda content: lzma.compress(content, preset=0),
    ".zst": zstandard,
}
NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
MANY = ("".join(map(str, range(100_000))) + "\n").encode() * 3
"""Longer than any block of these formats."""


@pytest.mark.parametrize("ending", PACK)
def test_a_compressed_file_of_several_members_is_one_stream(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending.upper()}"
    path.write_bytes(PACK[ending](b"one\ntw") + PACK[ending](b"o\n" + MANY))
    assert list(read_lines(path)) == ["one\n", "two\n", *MANY.decode().splitlines(keepends=True)]


def test_xz_data_that_asks_for_much_memory_is_refused(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(b"one\n", preset=0))
    header = slice(12, 12 + (packed[12] + 1) * 4)  # of the block, its checksum last
    packed[16] = 40  # a dictionary of 4 GiB
    packed[header.stop - 4 : header.stop] = zlib.crc32(
        packed[header.start : header.stop - 4]
    ).to_bytes(4, "little")
    path = tmp_path / "a.txt.xz"
    path.write_bytes(packed)
    assert "xz data damaged after 0 whole lines (Memory usage limit exceeded)" in error_of(path)


@pytest.mark.parametrize("ending", PACK)
def test_damaged_compressed_files(tmp_path: Path, ending: str) -> None:
    path, kind, packed = tmp_path / f"a.txt{ending}", NAMES[ending], PACK[ending](MANY)
    path.write_bytes(packed[:-9])
    assert error_of(path).startswith(f"{path}: {kind} data cut short after ")
    path.write_bytes(packed[:16] + bytes(255 - byte for byte in packed[16:]))
    assert error_of(path).startswith(f"{path}: {kind} data damaged after ")
    path.write_bytes(b"plain\n")
    assert error_of(path) == f"{path}: not {kind} data, though its name ends in {ending}"
    path.with_suffix("").write_bytes(PACK[ending]("é\n".encode() * 100))
    hint = f"it looks like {kind}: decompress it, or let its name end in {ending}"
    assert hint in error_of(path.with_suffix(""))


def test_a_python_without_a_compression_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt.xz"
    path.write_bytes(PACK[".xz"](b"one\n"))
    monkeypatch.setitem(sys.modules, "lzma", None)
    assert error_of(path) == (
        f"{path}: xz data, which this Python cannot read: it was built without the module lzma"
    )


@pytest.mark.parametrize("ending", [".bz2", ".zst"])
def test_a_disk_that_fails_is_no_damage(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(PACK[ending](MANY))

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(size)

        def readinto(self, buffer: Any, /) -> int:
            memoryview(buffer)[:100] = self.read(100)
            return 100

    content = path.read_bytes()
    monkeypatch.setattr(Path, "open", lambda *_: io.BufferedReader(Failing(content), 100))
    assert error_of(path) == f"{path}: cannot be read: {os.strerror(errno.EIO)}"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n\xff\n")))
    lines = read_lines(Path("-"))
    assert [next(lines), next(lines)] == ["one\n", "two\n"]
    with pytest.raises(UserError, match=r"^standard input, line 3: not UTF-8 \(byte 1 is 0xff;"):
        next(lines)
    assert not sys.stdin.closed


WHOLE = gzip.compress(MANY, mtime=0)
OTHER = "; if it is in another encoding, such as Excel's cp1252, give that by --encoding"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"ok\ncaf\xe9\n", f", line 2: not UTF-8 (byte 4 is 0xe9{OTHER})"),
        ("a.txt", b"ok\n\xe2\x82", f", line 2: not UTF-8 (byte 1 is 0xe2{OTHER})"),
        ("a.txt", b"one\rtwo\r", ": lines end in a carriage return alone; save it with LF or CRLF"),
        ("a.csv", b"a,b\rc,d", ": lines end in a carriage return alone; save it with LF or CRLF"),
        (
            "a.txt",
            "a\n".encode("utf-16"),
            ", line 1: not UTF-8 (byte 1 is 0xff; it looks like UTF-16: save it as UTF-8)",
        ),
        (
            "a.txt",
            WHOLE,
            ", line 1: not UTF-8 (byte 2 is 0x8b; it looks like gzip: decompress it, or let its "
            "name end in .gz)",
        ),
        ("a.txt", b"ok\nno\0t\n", ", line 2: byte 3 is NUL; this is not a text file"),
        ("a.txt", "\u00e9\0".encode(), ", line 1: byte 3 is NUL; this is not a text file"),
        ("a.txt.gz", b"plain\n", ": not gzip data, though its name ends in .gz"),
        ("a.txt.gz", WHOLE[:5], ": gzip data cut short after 0 whole lines"),
        ("a.txt.gz", WHOLE[:-9], ": gzip data cut short after 2 whole lines"),
        (
            "a.txt.gz",
            WHOLE[:10] + b"\x07" + WHOLE[11:],
            ": gzip data damaged after 0 whole lines (Error -3 while decompressing data: invalid "
            "block type)",
        ),
        (
            "a.txt.gz",
            gzip.compress(b"one\n", mtime=0) + b"tail",
            ": gzip data damaged after 0 whole lines (Not a gzipped file (b'ta'))",
        ),
    ],
)
def test_what_is_not_text(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert error_of(path) == f"{path}{message}"


def test_a_wrong_checksum_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(WHOLE[:-8] + b"\0\0\0\0" + WHOLE[-4:])
    assert error_of(path).startswith(
        f"{path}: gzip data damaged after 2 whole lines (CRC check failed"
    )


@pytest.mark.parametrize("name", ["a.txt", *(f"a.txt{ending}" for ending in PACK)])
def test_an_endless_line_is_refused_before_it_is_held(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = b"x" * 999 + b"\n" + b"y" * 20_000_000
    path.write_bytes(PACK.get(path.suffix, bytes)(content))
    tracemalloc.start()
    try:
        assert error_of(path, 1000) == f"{path}, line 2: longer than 1,000 bytes"
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    for name in ("a.txt", *(f"a.txt{ending}" for ending in PACK)):
        (tmp_path / name).write_bytes(b"")
        assert list(read_lines(tmp_path / name)) == []


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "train.csv").touch()
    (tmp_path / "link.csv").symlink_to("moved.csv")
    cases = {
        tmp_path / "link.csv": ": no such file (a link to nowhere)",
        tmp_path / "trian.csv": ": no such file (did you mean 'train.csv'?)",
        tmp_path / "quite different": ": no such file",
        tmp_path / "no" / "a.csv": f": no such file (there is no folder '{tmp_path}/no')",
        tmp_path: ": a folder; give a file",
        tmp_path / ("x" * 300): ": cannot be read: File name too long",
    }
    for path, message in cases.items():
        with pytest.raises(UserError) as caught:
            check_file(path)
        assert str(caught.value) == f"{path}{message}"
    check_file(tmp_path / "train.csv")
    check_file(Path("-"))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    path = tmp_path / "a.txt"
    path.touch()
    monkeypatch.setattr(Path, "open", refuse)  # root may read everything, so no mode bits
    assert error_of(path) == f"{path}: cannot be read: Permission denied"


@pytest.mark.parametrize("ending", PACK)
def test_what_follows_compressed_data(tmp_path: Path, ending: str) -> None:
    pack, path = PACK[ending], tmp_path / f"a.txt{ending}"
    path.write_bytes(pack(b"one\n") + pack(b"two\n"))
    assert list(read_lines(path)) == ["one\n", "two\n"]
    path.write_bytes(pack(b"one\n") + b"no compressed data")
    with pytest.raises(UserError, match=f"{NAMES[ending]} data damaged after . whole lines"):
        list(read_lines(path))


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz"])
def test_zeros_may_fill_up_compressed_data(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(PACK[ending](b"one\n") + bytes(300_000) + PACK[ending](b"two\n") + bytes(4))
    assert list(read_lines(path)) == ["one\n", "two\n"]
