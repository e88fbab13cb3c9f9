"""Images are opened as people see them; other files are refused in one line."""

import io
import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

from heedful.errors import UserError
from heedful.images import opening
from heedful.images.opening import open_image, read_bytes

Image = pytest.importorskip("PIL.Image", reason="needs the extra [images]")
RED, GREEN = (200, 0, 0), (0, 200, 0)


def _bytes(picture: Image.Image, format: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, format, **options)
    return stream.getvalue()


def _two() -> Image.Image:
    """Return a red pixel with a green one right of it."""
    picture = Image.new("RGB", (2, 1), RED)
    picture.putpixel((1, 0), GREEN)
    return picture


def _pixels(content: bytes, channels: int = 3) -> list[object]:
    picture = open_image(content, "it", channels=channels)
    return np.asarray(picture).tolist()


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM", "GIF"])
def test_formats(format: str) -> None:
    assert _pixels(_bytes(_two(), format)) == [[[*RED], [*GREEN]]]


def test_a_picture_stands_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned to the left
    assert _pixels(_bytes(_two(), exif=exif)) == [[[*RED]], [[*GREEN]]]


@pytest.mark.parametrize("mode", ["P", "RGBA", "L", "1", "CMYK"])
def test_all_modes_become_colours(mode: str) -> None:
    white = Image.new("RGB", (1, 1), "white").convert(mode)
    assert _pixels(_bytes(white, "TIFF")) == [[[255, 255, 255]]]
    assert _pixels(_bytes(white, "TIFF"), channels=1) == [[255]]


def test_what_is_transparent_is_white() -> None:
    clear = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    clear.putpixel((1, 0), (0, 0, 0, 255))
    assert _pixels(_bytes(clear)) == [[[255] * 3, [0] * 3]]
    palette = Image.new("P", (1, 1), 0)
    palette.putpalette([0, 0, 0])
    assert _pixels(_bytes(palette, transparency=0)) == [[[255] * 3]]
    deep = Image.fromarray(np.array([[700, 701]], dtype=np.uint16))
    assert _pixels(_bytes(deep, transparency=700), channels=1) == [[255, 3]]


def test_deep_pixels_are_rounded() -> None:
    deep = Image.fromarray(np.array([[0, 257, 65535]], dtype=np.uint16))
    assert _pixels(_bytes(deep), channels=1) == [[0, 1, 255]]
    between = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    for picture in (
        Image.fromarray(between),
        Image.frombytes("I;16B", (256, 256), between.astype(">u2").tobytes()),  # of some TIFFs
    ):
        rounded = [round(number / 257) for number in range(65536)]
        flat = open_image(_bytes(picture, "TIFF"), "it", channels=1)
        assert np.asarray(flat).ravel().tolist() == rounded


@pytest.mark.parametrize(
    "content",
    [
        b"P5 3 1 65535 " + np.array([0, 257, 65535], ">u2").tobytes(),
        b"P5 3 1 510 " + np.array([0, 2, 510], ">u2").tobytes(),  # of their own scale
        b"P2 3 1 65535 0 257 65535",
    ],
    ids=["bytes", "scale", "figures"],
)
def test_deep_pixels_of_pgm_are_rounded(content: bytes) -> None:
    assert _pixels(content, channels=1) == [[0, 1, 255]]


def test_of_an_animation_the_first_picture_counts() -> None:
    first, second = Image.new("RGB", (1, 1), RED), Image.new("RGB", (1, 1), GREEN)
    film = _bytes(first, "GIF", save_all=True, append_images=[second])
    assert _pixels(film) == [[[*RED]]]


def _bomb(side: int) -> bytes:
    """Return a PNG of a few bytes whose header claims side x side pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "^it: empty$"),
        (b"no picture", r"^it: not an image in a supported format \(BMP, GIF, JPEG, "),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "not an image in a supported format"),
        (_bytes(Image.new("RGB", (64, 64)), "JPEG")[:300], "^it: damaged image: "),
        (_bytes(Image.effect_noise((64, 64), 9))[:900], "^it: damaged image: "),
        (_bytes(Image.new("F", (1, 1)), "TIFF"), "^it: 32 bits per channel; save it with 8 or 16"),
        (_bomb(8_000), r"^it: 8,000 x 8,000 pixels; images of at most 50,000,000 are read$"),
        (_bomb(60_000), "^it: .*pixels; images of at most 50,000,000 are read$"),
    ],
    ids=["empty", "text", "program", "cut JPEG", "cut PNG", "floats", "large", "bomb"],
)
def test_what_is_no_picture(content: bytes, message: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserError, match=message) as caught:
            open_image(content, "it")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cat.png").write_bytes(b"12345")
    (tmp_path / "link.png").symlink_to(tmp_path / "gone.png")
    os.mkfifo(tmp_path / "pipe.png")
    monkeypatch.setattr(opening, "MAX_BYTES", 4)
    for name, message in {
        "cart.png": "no such file .did you mean 'cat.png'",
        "": "a folder; give an image",
        "link.png": "a link to .*gone.png, which is not there",
        "pipe.png": "not a regular file",
        "cat.png": "5 bytes; images of at most 4 are read",
        "a\0b": "cannot be read",
    }.items():
        with pytest.raises(UserError, match=message) as caught:
            read_bytes(tmp_path / name)
        assert str(tmp_path) in str(caught.value)


def test_links_to_pictures_are_followed(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"12345")
    (tmp_path / "link.png").symlink_to("cat.png")
    assert read_bytes(tmp_path / "link.png") == b"12345"
