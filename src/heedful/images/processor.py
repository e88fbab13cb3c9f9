"""Convert images to a model's input, as ``preprocessor_config.json`` specifies.

Shapes: B batch, C channels, Y rows, X columns.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from heedful import files
from heedful.arguments import suggest_arguments
from heedful.errors import UserError, check_known, did_you_mean
from heedful.images.opening import opaque_image, open_image, read_bytes
from heedful.sources import resolve, takes_download_options

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

OneImage: TypeAlias = "str | Path | bytes | Image | NDArray[np.uint8] | Tensor"
"""A path, the bytes of a file, a Pillow image, or its pixels."""

CONFIG = "preprocessor_config.json"

_CLASSES = ("ViTImageProcessor", "ViTFeatureExtractor", "ViTImageProcessorFast")
_CLASS_KEYS = ("image_processor_type", "feature_extractor_type")

_IGNORED = {
    *("_valid_processor_keys", "processor_class", "do_convert_rgb", "return_tensors"),
    *("data_format", "input_data_format", "device", "disable_grouping", "crop_size", "input_type"),
    *("do_pad", "pad_size", "default_to_square"),
}
"""Keys without effect. Images are always converted to the model's channels."""

_UNSUPPORTED = ("do_center_crop", "do_pad")
"""Steps that are not supported."""

_SIDES = ("height", "width")

RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}
"""Resampling filters by Pillow's numbers."""


class Pixels(dict[str, Any]):
    """The ``pixel_values`` of images, also as an attribute."""

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"this has no {name!r}{did_you_mean(name, self)}")

    def to(self, device: Any) -> "Pixels":
        """Return tensors on a device."""
        return Pixels({name: values.to(device) for name, values in self.items()})


@dataclass(frozen=True, kw_only=True, slots=True)
class ViTImageProcessor:
    """Resizes images to one size and normalizes their pixels.

    The keys are those of the reference's ``ViTImageProcessor``.

    Raises:
        UserError: a value has the wrong type or is out of range.
    """

    size: tuple[int, int] = (224, 224)
    """Rows and columns, in pixels; becomes an `ImageSize`. As in the reference, it may also be
    ``{"height": 224, "width": 224}``, or one number for both."""
    resample: int = 2
    """Resampling filter, by Pillow's number."""
    do_resize: bool = True
    """Whether to resize images of another size; if false, they are rejected."""
    do_rescale: bool = True
    """Whether to multiply pixels by ``rescale_factor``."""
    rescale_factor: float = 1 / 255
    """Factor on pixels, which range from 0 to 255."""
    do_normalize: bool = True
    """Whether to subtract ``image_mean`` and divide by ``image_std``."""
    image_mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    """Mean of each channel: C numbers."""
    image_std: tuple[float, ...] = (0.5, 0.5, 0.5)
    """Standard deviation of each channel: C numbers."""

    def __post_init__(self) -> None:
        size = _size(self.size)
        if not all(type(side) is int and 1 <= side < 2**16 for side in size):
            raise UserError(f"size is {self.size}; it must be rows and columns of pixels")
        object.__setattr__(self, "size", size)
        if self.resample not in RESAMPLING or isinstance(self.resample, bool):
            names = ", ".join(f"{number} ({name})" for number, name in RESAMPLING.items())
            raise UserError(f"resample is {self.resample!r}; it must be one of {names}")
        for name in ("do_resize", "do_rescale", "do_normalize"):
            if not isinstance(getattr(self, name), bool):
                raise UserError(f"{name} is {getattr(self, name)!r}; it must be true or false")
        numbers = (self.rescale_factor, *self.image_mean, *self.image_std)
        if not all(_is_number(number) for number in numbers) or 0 in self.image_std:
            raise UserError(
                f"rescale_factor {self.rescale_factor}, image_mean {list(self.image_mean)} and "
                f"image_std {list(self.image_std)} must be numbers, and those of image_std not 0"
            )
        if len(self.image_mean) != len(self.image_std) or self.channels not in (1, 3):
            raise UserError("image_mean and image_std must have 3 numbers each, or 1 each for grey")

    @property
    def channels(self) -> int:
        """C."""
        return len(self.image_mean)

    @property
    def neutral_colour(self) -> NDArray[np.uint8]:
        """Colour whose normalized value is closest to 0. Shape (C,)."""
        mean = np.array(self.image_mean if self.do_normalize else (0.0,) * self.channels)
        factor = self.rescale_factor if self.do_rescale else 1.0
        colour: NDArray[np.uint8] = (mean / factor).round().clip(0, 255).astype(np.uint8)
        return colour

    @suggest_arguments
    def __call__(
        self,
        images: "OneImage | Sequence[OneImage]",
        *,
        return_tensors: Literal["pt", "np"] = "pt",
    ) -> "Pixels":
        """Return ``pixel_values`` of one image or several, for ``model(**processor(images))``.

        Args:
            images: paths, bytes of files, Pillow images, or arrays and tensors of pixels from 0 to
                255, of type uint8 and shape (C, Y, X), (Y, X, C) or (Y, X).
            return_tensors: tensor type, ``pt`` for torch or ``np`` for numpy.

        Raises:
            UserError: see `read`.
        """
        if getattr(images, "ndim", 0) == 4:  # a batch as one array or tensor
            images = [*images]  # type: ignore[misc]
        elif isinstance(images, str | Path | bytes) or not isinstance(images, Sequence):
            images = [images]
        if not images:
            raise UserError("no image given")
        check_known("return_tensors", return_tensors, ("pt", "np"))
        items = cast("Sequence[OneImage]", images)
        pixels = [self._pixels_of(one, f"image {n}") for n, one in enumerate(items, start=1)]
        values = self.values(np.stack(pixels))
        if return_tensors == "np":
            return Pixels({"pixel_values": values})
        import torch

        return Pixels({"pixel_values": torch.from_numpy(values)})

    preprocess = __call__

    def _pixels_of(self, image: "OneImage", source: str) -> NDArray[np.uint8]:
        if isinstance(image, str | Path):
            return self.read(Path(image), str(image))
        if isinstance(image, bytes):
            return self.read(image, source)
        if hasattr(image, "__array__") and hasattr(image, "ndim"):
            image = _as_image(np.asarray(image), source)
        if not hasattr(image, "has_transparency_data"):
            kind = type(image).__name__
            raise UserError(
                f"{source}: a {kind}; give a file, its bytes, a Pillow image, or an array of pixels"
            )
        try:
            flat = opaque_image(image, source, channels=self.channels)
        except UserError:
            raise
        except (ValueError, OSError) as error:  # from Pillow, about a mode or the underlying file
            raise UserError(f"{source}: {error}") from None
        return self.pixels(flat, source)

    def read(self, content: Path | bytes, source: str) -> NDArray[np.uint8]:
        """Return the pixels of an image at the model's size. Shape (C, Y, X), 0 to 255.

        Args:
            content: a path, or the bytes of a file.
            source: name of the image, for error messages.

        Raises:
            UserError: see `open_image` and `read_bytes`; or the image has another size and
                ``do_resize`` is false.
        """
        data = content if isinstance(content, bytes) else read_bytes(content)
        return self.pixels(open_image(data, source, channels=self.channels), source)

    def pixels(self, image: "Image", source: str = "the image") -> NDArray[np.uint8]:
        """Return the pixels of an open image that has the model's channels; see `read`."""
        rows, columns = self.size
        if image.size != (columns, rows):
            if not self.do_resize:
                raise UserError(
                    f"{source}: {image.height} x {image.width} pixels; "
                    f"the model reads {rows} x {columns}, and do_resize is false"
                )
            image = image.resize((columns, rows), self.resample)
        pixels = np.asarray(image)  # (Y, X) or (Y, X, C)
        return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def values(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the model's input, rounded as in the reference. Shape (B, C, Y, X).

        Args:
            pixels: pixels of the same shape.
        """
        values = pixels.astype(np.float64)
        if self.do_rescale:
            values = values * self.rescale_factor
        values32 = values.astype(np.float32)
        if self.do_normalize:
            mean = np.array(self.image_mean, np.float32)[:, None, None]
            values32 = (values32 - mean) / np.array(self.image_std, np.float32)[:, None, None]
        return values32

    @classmethod
    @takes_download_options
    @suggest_arguments
    def from_pretrained(
        cls, name: str | os.PathLike[str], *, channels: int = 3, revision: str | None = None
    ) -> Self:
        """Read the ``preprocessor_config.json`` of a model.

        Args:
            name: see ``heedful.sources.resolve``.
            channels: channels of the model, for a file with a single mean for all channels.
            revision: commit, tag or branch of a hub name.

        Raises:
            UserError: the file does not exist, or it requests an unsupported step.
        """
        path = resolve(name, revision) / CONFIG
        return cls.from_dict(files.read_json(path), where=str(path), channels=channels)

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], *, where: str = "configuration", channels: int = 3
    ) -> Self:
        """Build from the keys and values of a ``preprocessor_config.json``."""
        for key in _CLASS_KEYS:
            if values.get(key, _CLASSES[0]) not in _CLASSES:
                raise UserError(
                    f"{where}: {key} is {values[key]!r}; only {_CLASSES[0]} is supported"
                )
        for key in _UNSUPPORTED:
            if values.get(key):
                raise UserError(f"{where}: {key} is {values[key]!r}; only false is supported")
        names = list(cls.__dataclass_fields__)
        fields = {
            key: values[key]
            for key in values
            if key not in (*_CLASS_KEYS, *_UNSUPPORTED, *_IGNORED)
        }
        for key in fields:
            if key not in names:
                raise UserError(f"{where}: unknown key {key!r}{did_you_mean(key, names)}")
        for key in ("image_mean", "image_std"):
            if key in fields or channels != 3:
                value = fields.get(key)
                fields[key] = _each(0.5 if value is None else value, channels)
        try:
            return cls(**fields)
        except (UserError, TypeError) as error:
            raise UserError(f"{where}: {error}") from None

    def identity(self) -> str:
        """Return a string that is equal for two processors with equal settings."""
        return json.dumps(self.to_dict(), sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a file that heedful and the reference can read."""
        return {
            "image_processor_type": _CLASSES[0],
            "do_resize": self.do_resize,
            "size": {"height": self.size[0], "width": self.size[1]},
            "resample": self.resample,
            "do_rescale": self.do_rescale,
            "rescale_factor": self.rescale_factor,
            "do_normalize": self.do_normalize,
            "image_mean": list(self.image_mean),
            "image_std": list(self.image_std),
            "do_convert_rgb": True if self.channels == 3 else None,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``preprocessor_config.json``."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        files.write_json(Path(folder) / CONFIG, self.to_dict())


class ImageSize(tuple[int, int]):
    """Rows and columns, in pixels; as in the reference also ``["height"]`` and ``["width"]``."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_SIDES.index(key) if key in _SIDES else key)

    def __contains__(self, key: object) -> bool:
        return key in _SIDES or super().__contains__(key)


def _size(value: Any) -> ImageSize:
    """Parse a size to rows and columns.

    Raises:
        UserError: the value gives only one side, or is not a size.
    """
    if type(value) is int:
        return ImageSize((value, value))
    if isinstance(value, Mapping) and set(value) == set(_SIDES):
        return ImageSize(value[side] for side in _SIDES)
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        return ImageSize(value)
    raise UserError(f'size is {value!r}; expected {{"height": 224, "width": 224}}')


def _as_image(pixels: NDArray[Any], source: str) -> "Image":
    """Return pixels as a Pillow image; as in the reference, channels may be first or last."""
    from PIL import Image

    if pixels.ndim == 3 and pixels.shape[0] in (1, 3):
        pixels = pixels.transpose(1, 2, 0)
    if pixels.dtype != np.uint8 or not (
        pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (1, 3))
    ):
        raise UserError(
            f"{source}: an array of {pixels.dtype} and shape {pixels.shape}; it must be of uint8 "
            "and shape (C, Y, X), (Y, X, C) or (Y, X) with 1 or 3 channels"
        )
    grey = pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    return Image.fromarray(np.ascontiguousarray(grey))


def _each(value: Any, channels: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,) * channels


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
