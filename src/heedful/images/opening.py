"""Files and bytes to pictures, by Pillow, upright and with 8 bits a colour.

What is read may be damaged or hostile: how many bytes and pixels there are is looked at before
anything is unpacked, and only formats that are nothing but pixels are tried.
"""

import stat
import warnings
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heedful.errors import UserError, did_you_mean
from heedful.extras import missing

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 64 * 2**20
"""The largest file that is read."""

MAX_PIXELS = 50_000_000
"""The largest picture that is unpacked: that of a camera, at 4 bytes a pixel 200 MB."""

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""What is tried, under Pillow's names. Others hold programs, or have it call some."""

_DEEP = ("I;16", "I;16L", "I;16B", "I;16N")
"""Pillow's names of grey with 16 bits."""


def read_bytes(path: Path) -> bytes:
    """Read the file of a picture.

    Raises:
        UserError: it is not there, is no file, is empty or too large, or may not be read.
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
    except (OSError, ValueError) as error:  # ValueError: UserError, and a name with a NUL
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
    """Make a picture of the bytes of a file.

    What is transparent is seen on white. Of an animation the first picture is taken. Where the file
    says how the camera was held, the picture is turned upright.

    Args:
        content: the bytes.
        source: what errors call the picture.
        channels: 3 for colours, 1 for grey.

    Raises:
        UserError: it is no picture, or broken, or too large.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise missing("images") from None
    if not content:
        raise UserError(f"{source}: empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is large, or odd in a file: told below
            picture: Image.Image = Image.open(BytesIO(content), formats=FORMATS)
            rows, columns = picture.height, picture.width
            if rows * columns > MAX_PIXELS:
                raise UserError(
                    f"{source}: {columns:,} x {rows:,} pixels; pictures of at most "
                    f"{MAX_PIXELS:,} are read"
                )
            picture.load()
            if picture.mode == "I" and picture.format == "PPM":  # 16 bits, of which none are lost
                picture = picture.convert("I;16")
            picture = ImageOps.exif_transpose(picture)
            return flat_picture(picture, source, channels=channels)
    except UserError:
        raise
    except UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise UserError(f"{source}: not a picture of a format that is read ({known})") from None
    except Image.DecompressionBombError:
        raise UserError(
            f"{source}: too many pixels; pictures of at most {MAX_PIXELS:,} are read"
        ) from None
    except Exception as error:  # each format has its own for damage
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{source}: a broken picture: {reason}") from error


def blank_picture() -> bytes:
    """Return the bytes of a white picture."""
    from PIL import Image

    stream = BytesIO()
    Image.new("RGB", (8, 8), "white").save(stream, "PNG")
    return stream.getvalue()


def flat_picture(picture: "Image", source: str, *, channels: int = 3) -> "Image":
    """Return a picture of 8 bits a colour in which nothing is transparent.

    Args:
        picture: any.
        source: what errors call it.
        channels: 3 for colours, 1 for grey.

    Raises:
        UserError: its colours have 32 bits.
    """
    return _flat(picture, source).convert("L" if channels == 1 else "RGB")


def _flat(picture: "Image", source: str) -> "Image":
    from PIL import Image

    if picture.mode in _DEEP:  # Pillow would cut numbers above 255, and knows no transparent ones
        deep = np.asarray(picture)
        pixels = np.rint(deep / 257).astype(np.uint8)
        clear = picture.info.get("transparency")
        return Image.fromarray(pixels if clear is None else np.where(deep == clear, 255, pixels))
    if picture.mode in ("I", "F"):
        raise UserError(f"{source}: pixels of 32 bits; save it with 8 or 16 bits a colour")
    if picture.has_transparency_data:
        clear = picture.convert("RGBA")
        white = Image.new("RGBA", clear.size, "white")
        return Image.alpha_composite(white, clear)
    return picture
