"""Decode files and bytes to upright pictures with 8 bits per channel, using Pillow.

Input may be damaged or hostile. The numbers of bytes and pixels are checked before decoding, and
only pure raster formats are tried.
"""

import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heedful.errors import UserError, did_you_mean
from heedful.extras import missing

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 64 * 2**20
"""Maximum file size."""

MAX_PIXELS = 50_000_000
"""Maximum size of a picture to decode: enough for a camera, and 200 MB at 4 bytes per pixel."""

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats to try, by Pillow's names. Other formats contain programs or make Pillow run some."""

_GREY16 = ("I;16", "I;16L", "I;16B", "I;16N")
"""Pillow's names of modes for 16-bit grey."""


def read_bytes(path: Path) -> bytes:
    """Read the bytes of a picture file.

    Raises:
        UserError: the file does not exist, is not a regular file, is too large, or cannot be read.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise UserError(f"{path}: a folder; give a picture")
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path}: not a regular file; give a picture")
        if status.st_size > MAX_BYTES:
            raise UserError(
                f"{path}: {status.st_size:,} bytes; pictures of at most {MAX_BYTES:,} are read"
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(_not_there(path)) from None
    except (OSError, ValueError) as error:  # ValueError: UserError, or a path with a NUL
        if isinstance(error, UserError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{str(path)!r}: cannot be read: {reason}") from None


def _not_there(path: Path) -> str:
    if path.is_symlink():
        return f"{path}: a link to {path.readlink()}, which is not there"
    siblings = [x.name for x in path.parent.iterdir()] if path.parent.is_dir() else []
    return f"{path}: no such file{did_you_mean(path.name, siblings)}"


def open_picture(content: bytes, source: str, *, channels: int = 3) -> "Image":
    """Decode a picture from the bytes of a file.

    Transparent pixels are composited on white. An animation yields its first frame. If the file
    has an EXIF orientation, the picture is rotated upright.

    Args:
        content: bytes of the file.
        source: name of the picture, for error messages.
        channels: 3 for colour, 1 for grey.

    Raises:
        UserError: the content is empty, not a picture, damaged or too large.
    """
    with _refusing(source):
        from PIL import ImageOps

        picture = _open(content, source)
        picture.load()
        if picture.mode == "I" and picture.format == "PPM":  # 16-bit values; lossless
            picture = picture.convert("I;16")
        picture = ImageOps.exif_transpose(picture)
        return opaque_picture(picture, source, channels=channels)


def count_pixels(content: bytes) -> int:
    """Return the number of pixels of a picture by its header; 0 if `open_picture` refuses it."""
    with suppress(UserError), _refusing("picture"):
        picture = _open(content, "picture")
        return picture.height * picture.width
    return 0


def _open(content: bytes, source: str) -> "Image":
    """Read the header of a picture, and check its number of pixels."""
    from PIL import Image

    if not content:
        raise UserError(f"{source}: empty")
    picture: Image.Image = Image.open(BytesIO(content), formats=FORMATS)
    rows, columns = picture.height, picture.width
    if rows * columns > MAX_PIXELS:
        raise UserError(
            f"{source}: {columns:,} x {rows:,} pixels; pictures of at most {MAX_PIXELS:,} are read"
        )
    return picture


@contextmanager
def _refusing(source: str) -> Iterator[None]:
    """Turn the exceptions of Pillow into a `UserError`."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise missing("images") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large or odd files, which are checked
            yield
    except UserError:
        raise
    except UnidentifiedImageError:
        formats = ", ".join(FORMATS)
        raise UserError(f"{source}: not a picture of a format that is read ({formats})") from None
    except Image.DecompressionBombError:
        raise UserError(
            f"{source}: too many pixels; pictures of at most {MAX_PIXELS:,} are read"
        ) from None
    except Exception as error:  # each format raises its own exceptions for damaged files
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{source}: a broken picture: {reason}") from error


def blank_picture() -> bytes:
    """Return the PNG bytes of a white picture."""
    from PIL import Image

    stream = BytesIO()
    Image.new("RGB", (8, 8), "white").save(stream, "PNG")
    return stream.getvalue()


def opaque_picture(picture: "Image", source: str, *, channels: int = 3) -> "Image":
    """Return an opaque picture with 8 bits per channel.

    Args:
        picture: picture of any mode.
        source: name of the picture, for error messages.
        channels: 3 for colour, 1 for grey.

    Raises:
        UserError: the picture has 32 bits per channel.
    """
    return _flat(picture, source).convert("L" if channels == 1 else "RGB")


def _flat(picture: "Image", source: str) -> "Image":
    from PIL import Image

    if picture.mode in _GREY16:  # Pillow would clip values above 255 and ignore transparency
        grey16 = np.asarray(picture)
        pixels = np.rint(grey16 / 257).astype(np.uint8)
        clear = picture.info.get("transparency")
        return Image.fromarray(pixels if clear is None else np.where(grey16 == clear, 255, pixels))
    if picture.mode in ("I", "F"):
        raise UserError(f"{source}: pixels of 32 bits; save it with 8 or 16 bits a colour")
    if picture.has_transparency_data:
        rgba = picture.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba)
    return picture
