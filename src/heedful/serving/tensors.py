"""Tensors of the Open Inference Protocol: JSON, and the binary tensor data extension."""

import gzip
import io
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from heedful.errors import unknown_name
from heedful.files import replace_surrogates
from heedful.serving.asking import Body, Several, first_error
from heedful.serving.limits import check_items
from heedful.serving.problem import Problem
from heedful.serving.wire import load
from heedful.settings import ServeSettings

HEADER = "inference-header-content-length"
"""Header with the number of JSON bytes in a body; binary tensors follow them."""

Datatype = Literal["BOOL", "INT64", "FP32", "BYTES"]
_FORMATS = {"BOOL": "?", "INT64": "<i8", "FP32": "<f4"}
_ENCODINGS = ("gzip", "deflate")
_MEMBER = b"\x1f\x8b\x08"
"""First bytes of each gzip member (RFC 1952, 2.3.1)."""
_MAX_MEMBERS = 1000
"""Maximum number of gzip members, each of which takes as long as thousands of bytes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """An output tensor."""

    name: str
    datatype: Datatype
    data: Any
    """The flat elements: an array of numbers, or a list of texts."""
    width: int | None = None
    """Number of columns if the tensor has two dimensions."""

    @property
    def shape(self) -> list[int]:
        """Shape of the tensor."""
        if self.width is None:
            return [len(self.data)]
        return [len(self.data) // max(self.width, 1), self.width]

    def values(self) -> list[Any]:
        """Return the elements for JSON."""
        if self.datatype == "BYTES":
            return list(self.data)
        elements: list[Any] = np.asarray(self.data, _FORMATS[self.datatype]).tolist()
        return elements

    def bytes(self) -> bytes:
        """Return the elements as bytes. Each text is prefixed with its length."""
        if self.datatype != "BYTES":
            return np.asarray(self.data, _FORMATS[self.datatype]).tobytes()
        texts = [replace_surrogates(text).encode() for text in self.data]
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


Name = Annotated[str, Field(max_length=100)]
Dimension = Annotated[int, Field(le=2**63 - 1)]


class InputTensor(Body):
    """A tensor of texts."""

    name: Name = Field(examples=["text"])
    shape: list[Dimension] = Field(max_length=2, examples=[[2]])
    datatype: Name = Field(description="BYTES", examples=["BYTES"])
    parameters: dict[str, Any] | None = None
    data: list[Any] | None = Field(default=None, examples=[["the red cat", "it is white"]])


class AskedOutput(Body):
    """A requested output tensor."""

    name: Name = Field(examples=["scores"])
    parameters: dict[str, Any] | None = None


class InferBody(Body):
    """Input texts and requested outputs."""

    id: str | None = None
    parameters: dict[str, Any] | None = Field(
        default=None, description="Options of `heedful predict`, such as top; binary_data_output."
    )
    inputs: Several[InputTensor] = Field(min_length=1)
    outputs: Several[AskedOutput] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InferRequest:
    """A parsed request."""

    id: str | None
    texts: dict[str, NDArray[np.object_]]
    """The texts of each input, in the input's shape."""
    options: dict[str, Any]
    outputs: dict[str, bool] | None
    """Names of the requested outputs, and whether to send each as bytes; None for all outputs."""
    as_bytes: bool
    """Whether outputs are sent as bytes by default."""


def decompressed(content: bytes, encoding: str, most: int) -> bytes:
    """Return a decompressed body.

    Args:
        content: the body as received.
        encoding: its Content-Encoding.
        most: maximum number of bytes after decompression.

    Raises:
        Problem: the encoding is unknown, the body is damaged, it has more than ``most`` bytes, or
            too many gzip members.
    """
    if encoding in ("", "identity"):
        return content
    if encoding not in _ENCODINGS:
        allowed = ", ".join(_ENCODINGS)
        raise Problem("validation", f"Content-Encoding: give {allowed}, or none", status=415)
    members = content.count(_MEMBER) if encoding == "gzip" else 0
    if members > _MAX_MEMBERS:
        raise Problem("too many", f"{members:,} gzip members; a body may have {_MAX_MEMBERS:,}")
    try:
        plain = (_gunzip if encoding == "gzip" else _inflate)(content, most + 1)
    except (zlib.error, EOFError, OSError):
        raise Problem("validation", f"the body is not {encoding}") from None
    if len(plain) > most:
        raise Problem("too large", f"a body may have at most {most:,} bytes")
    return plain


def _gunzip(content: bytes, max_bytes: int) -> bytes:
    """Decompress at most ``max_bytes`` of gzip data with any number of members (RFC 1952, 2.2)."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as members:
        return members.read(max_bytes)


def _inflate(content: bytes, max_bytes: int) -> bytes:
    """Decompress at most ``max_bytes`` of data in zlib format (RFC 1950)."""
    decompressor = zlib.decompressobj()
    plain = decompressor.decompress(content, max_bytes)
    if len(plain) < max_bytes and (not decompressor.eof or decompressor.unused_data):
        raise EOFError("it is truncated, or other data follows it")
    return plain


def read(content: bytes, header: str | None, settings: ServeSettings) -> InferRequest:
    """Parse a request.

    Args:
        content: the body.
        header: number of its bytes that are JSON, as text; None for all.
        settings: the server's settings, with the limits.

    Raises:
        Problem: the request is invalid.
    """
    size = len(content)
    if header is not None:
        if not header.isascii() or not header.isdigit() or len(header) > 9:
            raise Problem("validation", f"{HEADER}: expected a number of bytes")
        size = int(header)
    if size > len(content):
        raise Problem("validation", f"{HEADER} is {size:,}; the body has {len(content):,} bytes")
    try:
        body = InferBody.model_validate(load(content[:size], settings))
    except ValidationError as error:
        raise Problem("validation", first_error(error.errors())) from None
    except ValueError:
        raise Problem("validation", "the JSON part of the body is not JSON") from None
    texts, remaining = {}, content[size:]
    for tensor in body.inputs:
        if tensor.name in texts:
            raise Problem("validation", f"there are two inputs {tensor.name!r}")
        elements, remaining = _elements(tensor, remaining, settings)
        texts[tensor.name] = _shaped(tensor, elements)
    if remaining:
        raise Problem("validation", f"{len(remaining):,} bytes are left after the last tensor")
    options = dict(body.parameters or {})
    as_bytes = options.pop("binary_data_output", False) is True
    outputs = None
    if body.outputs:
        outputs = {one.name: _wants_bytes(one, as_bytes) for one in body.outputs}
    return InferRequest(
        id=body.id, texts=texts, options=options, outputs=outputs, as_bytes=as_bytes
    )


def _shaped(tensor: InputTensor, elements: list[str]) -> NDArray[np.object_]:
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    try:
        if min(tensor.shape, default=0) >= 0:  # numpy would infer a dimension of -1
            return array.reshape(tensor.shape)
    except (ValueError, OverflowError):  # the shape does not fit, or is too large for any array
        pass
    raise Problem(
        "validation",
        f"{tensor.name}: {len(elements):,} texts do not have the shape {tensor.shape}",
    )


def _elements(
    tensor: InputTensor, content: bytes, settings: ServeSettings
) -> tuple[list[str], bytes]:
    """Return the texts of an input, and the remaining bytes."""
    count = math.prod(max(size, 0) for size in tensor.shape)
    check_items(count, settings)  # before the texts are read
    if tensor.datatype != "BYTES":
        message = f"{tensor.name}: its datatype is {tensor.datatype!r}; texts are BYTES"
        raise Problem("validation", message)
    parameters = dict(tensor.parameters or {})
    size = parameters.pop("binary_data_size", None)
    if parameters:
        unknown = unknown_name("parameter", next(iter(parameters)), ["binary_data_size"])
        raise Problem("validation", f"{tensor.name}: {unknown}")
    if size is None:
        if tensor.data is None:
            raise Problem("validation", f"{tensor.name}: no data in it")
        return _flat_texts(tensor), content
    if not isinstance(size, int) or not 0 <= size <= len(content) or tensor.data is not None:
        raise Problem("validation", f"{tensor.name}: binary_data_size is not that of its bytes")
    return _texts(tensor, content[:size], count), content[size:]


def _flat_texts(tensor: InputTensor) -> list[str]:
    """Return the texts of an input as a flat list. Its data may be flat, or nested like its shape.

    Raises:
        Problem: a row has the wrong length, or an element is not a text.
    """
    data: list[Any] = tensor.data or []
    if len(tensor.shape) > 1 and any(isinstance(row, list) for row in data):
        rows = [row if isinstance(row, list) else [row] for row in data]
        for number, row in enumerate(rows, start=1):
            if len(row) != tensor.shape[1]:
                message = f"{tensor.name}: row {number} of {len(row):,} texts"
                raise Problem("validation", f"{message} in the shape {tensor.shape}")
        data = list(chain.from_iterable(rows))
    for text in data:
        if not isinstance(text, str):
            raise Problem("validation", f"{tensor.name}: expected texts")
    return data


def _texts(tensor: InputTensor, content: bytes, most: int) -> list[str]:
    """Parse length-prefixed texts.

    Raises:
        Problem: there are more than ``most``, or one is damaged.
    """
    texts: list[str] = []
    start, name = 0, tensor.name
    while start < len(content):
        if len(texts) == most:
            raise Problem("validation", f"{name}: more texts than in the shape {tensor.shape}")
        end = start + 4 + int.from_bytes(content[start : start + 4], "little")
        if start + 4 > len(content) or end > len(content):
            raise Problem("validation", f"{name}: a text is longer than its bytes")
        try:
            texts.append(content[start + 4 : end].decode("utf-8"))
        except UnicodeDecodeError:
            raise Problem("validation", f"{name}: text {len(texts) + 1} is not UTF-8") from None
        start = end
    return texts


def _wants_bytes(output: AskedOutput, default: bool) -> bool:
    parameters = dict(output.parameters or {})
    as_bytes = parameters.pop("binary_data", default)
    if parameters:
        unknown = unknown_name("parameter", next(iter(parameters)), ["binary_data"])
        raise Problem("validation", f"{output.name}: {unknown}")
    return as_bytes is True


def write(
    about: Mapping[str, Any], tensors: Sequence[Tensor], as_bytes: Sequence[bool]
) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of a response, and the binary data that follows it.

    Args:
        about: the fields of the JSON other than the outputs.
        tensors: the output tensors.
        as_bytes: whether to send each tensor's elements as binary data.
    """
    outputs, parts = [], []
    for tensor, binary in zip(tensors, as_bytes, strict=True):
        output: dict[str, Any] = {
            "name": tensor.name,
            "shape": tensor.shape,
            "datatype": tensor.datatype,
        }
        if binary:
            parts.append(tensor.bytes())
            output["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            output["data"] = tensor.values()
        outputs.append(output)
    return {**about, "outputs": outputs}, b"".join(parts)
