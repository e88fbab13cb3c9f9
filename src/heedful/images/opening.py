"""Decode files and bytes to upright images with 8 bits per channel, using Pillow.

Input may be damaged or hostile. The numbers of bytes and pixels are checked before decoding, and
only pure raster formats are tried.
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
"""Maximum file size."""

MAX_PIXELS = 50_000_000
"""Maximum size of an image to decode: enough for a camera, and 200 MB at 4 bytes per pixel."""

FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats to try, by Pillow's names. Other formats contain programs or make Pillow run some."""

_GREY16 = ("I;16", "I;16L", "I;16B", "I;16N")
"""Pillow's names of modes for 16-bit grey."""


def read_bytes(path: Path) -> bytes:
    """Read the bytes of an image file.

    Raises:
        UserError: the file does not exist, is not a regular file, is too large, or cannot be read.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise UserError(f"{path}: a folder; give an image")
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path}: not a regular file; give an image")
        if status.st_size > MAX_BYTES:
            raise UserError(
                f"{path}: {status.st_size:,} bytes; images of at most {MAX_BYTES:,} are read"
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


def open_image(content: bytes, source: str, *, channels: int = 3) -> "Image":
    """Decode an image from the bytes of a file.

    Transparent pixels are composited on white. An animation yields its first frame. If the file
    has an EXIF orientation, the image is rotated upright.

    Args:
        content: bytes of the file.
        source: name of the image, for error messages.
        channels: 3 for colour, 1 for grey.

    Raises:
        UserError: the content is empty, not an image, damaged or too large.
    """
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise missing("images") from None
    if not content:
        raise UserError(f"{source}: empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large or odd files, which the code below checks
            image: Image.Image = Image.open(BytesIO(content), formats=FORMATS)
            rows, columns = image.height, image.width
            if rows * columns > MAX_PIXELS:
                raise UserError(
                    f"{source}: {columns:,} x {rows:,} pixels; images of at most "
                    f"{MAX_PIXELS:,} are read"
                )
            image.load()
            if image.mode == "I" and image.format == "PPM":  # 16-bit values; lossless
                image = image.convert("I;16")
            image = ImageOps.exif_transpose(image)
            return opaque_image(image, source, channels=channels)
    except UserError:
        raise
    except UnidentifiedImageError:
        formats = ", ".join(FORMATS)
        raise UserError(f"{source}: not an image in a supported format ({formats})") from None
    except Image.DecompressionBombError:
        raise UserError(
            f"{source}: too many pixels; images of at most {MAX_PIXELS:,} are read"
        ) from None
    except Exception as error:  # each format raises its own exceptions for damaged files
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{source}: damaged image: {reason}") from error


def count_pixels(content: bytes) -> int:
    """Return the number of pixels of an image by its header; 0 if `open_image` refuses it."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(BytesIO(content), formats=FORMATS)
    except Exception:  # each format raises its own exceptions for damaged files
        return 0
    return image.height * image.width


def blank_image() -> bytes:
    """Return the PNG bytes of a white image."""
    from PIL import Image

    stream = BytesIO()
    Image.new("RGB", (8, 8), "white").save(stream, "PNG")
    return stream.getvalue()


def opaque_image(image: "Image", source: str, *, channels: int = 3) -> "Image":
    """Return an opaque image with 8 bits per channel.

    Args:
        image: image of any mode.
        source: name of the image, for error messages.
        channels: 3 for colour, 1 for grey.

    Raises:
        UserError: the image has 32 bits per channel.
    """
    return _flat(image, source).convert("L" if channels == 1 else "RGB")


def _flat(image: "Image", source: str) -> "Image":
    from PIL import Image

    if image.mode in _GREY16:  # Pillow would clip values above 255 and ignore transparency
        grey16 = np.asarray(image)
        pixels = np.rint(grey16 / 257).astype(np.uint8)
        clear = image.info.get("transparency")
        return Image.fromarray(pixels if clear is None else np.where(grey16 == clear, 255, pixels))
    if image.mode in ("I", "F"):
        raise UserError(f"{source}: 32 bits per channel; save it with 8 or 16")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba)
    return image
