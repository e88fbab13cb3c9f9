"""The result of a tokenizer call: a mapping whose items are keyword arguments of models."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Literal, NamedTuple

from heedful.errors import MAX_NAME_LENGTH, UserError, did_you_mean, shorten
from heedful.tokens.columns import padded_lengths
from heedful.tokens.origin import Origin
from heedful.tokens.plan import RowPlan

Tensors = Literal["pt", "np"]
_MAX_LIST_TOKENS = 512
"""Up to this many tokens, building tensors from lists is faster than from arrays."""


class CharSpan(NamedTuple):
    """The characters of a text that a token is made from."""

    start: int
    end: int


class TokenSpan(NamedTuple):
    """The tokens of a row that a word is made of."""

    start: int
    end: int


class Encoding(MutableMapping[str, Any]):
    """Token ids, masks and other model inputs by name, with the origin of each token.

    ``encoding["input_ids"]`` and ``encoding.input_ids`` are the same; ``model(**encoding)`` passes
    all items.

    Args:
        values: the items.
        origin: the texts and pieces of the rows; None if the rows were not made from text.
    """

    def __init__(self, values: dict[str, Any], origin: Origin | None = None) -> None:
        self._values = values
        self._origin = origin

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except (KeyError, TypeError):
            raise KeyError(f"{name!r}; there are: {', '.join(self._values)}") from None

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._values:
            return self._values[name]
        near = "" if name.startswith("_") else did_you_mean(name, self._values)
        raise AttributeError(f"this encoding has no {name!r}{near}")

    def __copy__(self) -> "Encoding":
        """Return a copy with the same values, so that changing its items leaves this one alone."""
        return Encoding(dict(self._values), self._origin)

    def copy(self) -> "Encoding":
        """Return a copy with the same values, like ``dict.copy``."""
        return self.__copy__()

    @property
    def data(self) -> dict[str, Any]:
        """The items as a dictionary, by its name in the reference."""
        return self._values

    def __repr__(self) -> str:
        return f"Encoding({self._values!r})"

    def tokens(self, batch_index: int = 0) -> list[str]:
        """Return the tokens of a row, including special tokens and padding."""
        return self._origin_of(batch_index).tokens(batch_index)

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """Return the index of each token's word in its text; None for special tokens."""
        return self._origin_of(batch_index).word_ids(batch_index)

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """Return 0 for tokens of the first text, 1 for the second, None for special tokens."""
        return self._origin_of(batch_index).sequence_ids(batch_index)

    def token_to_sequence(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> int | None:
        """Return 0 for a token of the first text, 1 for one of the second, None for a special one.

        Args:
            batch_or_token_index: index of the row, or of the token if no other is given.
            token_index: index of the token in its row.
        """
        row = 0 if token_index is None else batch_or_token_index
        return self.sequence_ids(row)[batch_or_token_index if token_index is None else token_index]

    def char_to_token(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Return the position in a row of the token that contains a character of the text.

        Args:
            batch_or_char_index: index of the row, or of the character if no other is given.
            char_index: index of the character in its text.
            sequence_index: 0 for the first text, 1 for the second.

        Returns:
            None if the row has no token there, as for a space.
        """
        row, char = _row_and_index(batch_or_char_index, char_index)
        origin = self._origin_of(row)
        tokens = zip(origin.sequence_ids(row), origin.offsets(row), strict=True)
        for position, (sequence, offsets) in enumerate(tokens):
            if sequence == sequence_index and offsets and offsets[0] <= char < offsets[1]:
                return position
        return None

    def token_to_chars(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> CharSpan | None:
        """Return the start and end of a token in its text; None for special tokens.

        Args:
            batch_or_token_index: index of the row, or the token's position if no other is given.
            token_index: position of the token in its row.
        """
        row, token = _row_and_index(batch_or_token_index, token_index)
        offsets = self._origin_of(row).offsets(row)[token]
        return None if offsets is None else CharSpan(*offsets)

    def token_to_word(
        self, batch_or_token_index: int, token_index: int | None = None
    ) -> int | None:
        """Return the index of a token's word in its text; None for special tokens.

        Args:
            batch_or_token_index: index of the row, or the token's position if no other is given.
            token_index: position of the token in its row.
        """
        row, token = _row_and_index(batch_or_token_index, token_index)
        return self.word_ids(row)[token]

    def word_to_tokens(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> TokenSpan | None:
        """Return the tokens of a word: the first, and the one after the last.

        Args:
            batch_or_word_index: index of the row, or of the word if no other is given.
            word_index: index of the word in its text.
            sequence_index: 0 for the first text, 1 for the second.

        Returns:
            None if the row has no token of the word.
        """
        row, word = _row_and_index(batch_or_word_index, word_index)
        tokens = zip(self.sequence_ids(row), self.word_ids(row), strict=True)
        positions = [at for at, one in enumerate(tokens) if one == (sequence_index, word)]
        return TokenSpan(positions[0], positions[-1] + 1) if positions else None

    def word_to_chars(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> CharSpan | None:
        """Return the start and end of a word in its text; see `word_to_tokens`."""
        row, word = _row_and_index(batch_or_word_index, word_index)
        tokens = self.word_to_tokens(row, word, sequence_index)
        if tokens is None:
            return None
        spans = [span for span in self._origin_of(row).offsets(row)[slice(*tokens)] if span]
        return CharSpan(spans[0][0], spans[-1][1])

    def char_to_word(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """Return the index of the word that contains a character; see `char_to_token`."""
        row, char = _row_and_index(batch_or_char_index, char_index)
        token = self.char_to_token(row, char, sequence_index)
        return None if token is None else self.token_to_word(row, token)

    def convert_to_tensors(self, tensor_type: Tensors | None = None) -> "Encoding":
        """Convert all items to tensors or arrays, in place, and return the encoding.

        Args:
            tensor_type: ``"pt"`` or ``"np"``; None changes nothing.

        Raises:
            UserError: see `as_tensors`.
        """
        if tensor_type is not None:
            self._values.update(as_tensors(self._values, tensor_type))
        return self

    def to(self, device: Any, *, non_blocking: bool = False) -> "Encoding":
        """Move all tensors to a torch device, in place, and return the encoding.

        Args:
            device: the device.
            non_blocking: whether the host goes on before pinned memory has been copied.

        Raises:
            TypeError: ``device`` is something else, such as a data type; ids stay whole numbers.
        """
        for name, value in self._values.items():
            if hasattr(value, "to"):
                self._values[name] = value.to(device=device, non_blocking=non_blocking)
        return self

    def _origin_of(self, row: int) -> Origin:
        if self._origin is None:
            raise UserError("this encoding was not made from text: its tokens have no offsets")
        num_rows = len(self._origin.rows.samples)
        if not -num_rows <= row < num_rows:
            raise UserError(f"row {row}: this encoding has {num_rows} rows, from 0")
        return self._origin


def _row_and_index(row_or_index: int, index: int | None) -> tuple[int, int]:
    """Return a row and an index in it; the first row if only the index is given."""
    return (0, row_or_index) if index is None else (row_or_index, index)


def encoding_of(
    origin: Origin, *, wanted: Mapping[str, bool], tensors: Tensors | None, single: bool
) -> Encoding:
    """Build an encoding.

    Args:
        origin: the texts, pieces and rows.
        wanted: item name -> whether to include it.
        tensors: kind of tensors to return; None returns lists.
        single: whether to return flat lists for the only row, instead of lists of rows.

    Raises:
        UserError: see `as_tensors`.
    """
    if tensors is not None and sum(origin.rows.lengths) > _MAX_LIST_TOKENS:
        _check_lengths("input_ids", padded_lengths(origin.rows))
        return Encoding(as_tensors(origin.arrays(wanted), tensors), origin)
    items: dict[str, Any] = {**origin.lists(wanted)}
    if tensors is not None:
        items = as_tensors(items, tensors)
    elif single:
        # Like the reference, keep the length a list.
        items = {name: row if name == "length" else row[0] for name, row in items.items()}
    return Encoding(items, origin)


def pad_encodings(
    encodings: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    plan: RowPlan,
    pad_token_id: int,
    attention_mask: bool,
    tensors: Tensors | None,
) -> Encoding:
    """Pad encodings; see `BertTokenizer.pad`."""
    tensors = tensors or _tensors_in(encodings)
    if not isinstance(encodings, Mapping):
        names = list(encodings[0]) if encodings else ["input_ids"]
        encodings = {name: [item[name] for item in encodings] for name in names}
    if "input_ids" not in encodings:
        names = list(encodings) or ["no items"]
        raise UserError(f"nothing to pad: no 'input_ids' among {', '.join(names)}")
    values = {name: _as_list(value) for name, value in encodings.items()}
    ids = values["input_ids"]
    single = bool(ids) and not isinstance(ids[0], list)
    rows: list[list[int]] = [ids] if single else ids
    if attention_mask and "attention_mask" not in values:
        ones = [[1] * len(row) for row in rows]
        values["attention_mask"] = ones[0] if single else ones
    width = plan.width([len(row) for row in rows])
    fill_values = {
        "input_ids": pad_token_id,
        "token_type_ids": plan.layout.padding_type,
        "attention_mask": 0,
        "special_tokens_mask": 1,
    }
    for name, fill_value in fill_values.items():
        if name in values:
            unpadded = [values[name]] if single else values[name]
            padded = [
                plan.layout.padded(row, [fill_value] * (width - len(row))) for row in unpadded
            ]
            values[name] = padded[0] if single else padded
    return Encoding(values if tensors is None else as_tensors(values, tensors))


def _as_list(value: Any) -> Any:
    """Convert a tensor, an array, or a list of these to plain Python numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_as_list(item) for item in value] if isinstance(value, list | tuple) else value


def _tensors_in(encodings: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Tensors | None:
    """Return the kind of tensors that hold the ids of encodings; None for lists."""
    first = encodings if isinstance(encodings, Mapping) else next(iter(encodings), {})
    ids = first.get("input_ids")
    row = ids[0] if isinstance(ids, list | tuple) and ids else ids
    if not hasattr(row, "tolist"):
        return None
    return "np" if type(row).__module__ == "numpy" else "pt"


def as_tensors(values: Mapping[str, Any], kind: Tensors) -> dict[str, Any]:
    """Convert lists or arrays to torch tensors or numpy arrays, whole numbers to int64.

    Raises:
        UserError: rows differ in length, an item has no numbers, or ``kind`` is neither ``"pt"``
            nor ``"np"``.
    """
    import numpy

    if kind not in ("pt", "np"):
        raise UserError(f"return_tensors {kind!r}: must be 'pt', 'np' or None")
    arrays = {}
    for name, rows in values.items():
        if isinstance(rows, list):
            _check_lengths(name, [len(row) for row in rows if isinstance(row, list)])
        array = numpy.asarray(rows)
        if array.dtype.kind not in "biuf":
            raise UserError(f"{name}: no tensor can hold {shorten(repr(rows), MAX_NAME_LENGTH)}")
        if array.dtype.kind in "iu" or not array.size:  # an empty list would become floats
            array = array.astype(numpy.int64, copy=False)
        arrays[name] = array
    if kind == "np":
        return arrays
    import torch

    return {
        name: torch.as_tensor(array, dtype=torch.float32 if array.dtype.kind == "f" else None)
        for name, array in arrays.items()
    }


def _check_lengths(name: str, lengths: Sequence[int]) -> None:
    """Raise an error if rows differ in length."""
    if len(set(lengths)) > 1:
        raise UserError(
            f"{name}: no tensor can hold rows of {min(lengths)} to {max(lengths)} tokens; give "
            "padding=True, and truncation=True if texts are longer than max_length"
        )
