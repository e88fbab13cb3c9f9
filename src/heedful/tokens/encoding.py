"""What a tokenizer returns: a mapping whose items are keyword arguments of models."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

from heedful.errors import UserError, did_you_mean
from heedful.tokens.rows import Row, RowPlan
from heedful.tokens.vocabulary import Vocabulary

Tensors = Literal["pt", "np"]
Offsets = tuple[int, int]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Pieces:
    """The pieces of one text in order, as parallel lists."""

    ids: list[int] = field(default_factory=list)
    offsets: list[Offsets] = field(default_factory=list)
    """Start and end, in characters, of the slice of the text that the piece came from; for a text
    given as words, of its word."""
    words: list[int] = field(default_factory=list)
    """Index of the piece's word: among words, punctuation marks and special tokens as they stand
    in the text; for a text given as words, among those."""


class Text:
    """One encoded text. Where its pieces came from is worked out when first asked for."""

    def __init__(self, ids: list[int], locate: Callable[[], Pieces]) -> None:
        self.ids = ids
        self._locate = locate

    @cached_property
    def pieces(self) -> Pieces:
        """The pieces with their places."""
        return self._locate()


Sample = tuple[Text, Text | None]


class Encoding(MutableMapping[str, Any]):
    """Token ids and what goes with them, by name, and where each token came from.

    ``encoding["input_ids"]`` and ``encoding.input_ids`` are the same; ``model(**encoding)`` passes
    all items.

    Args:
        values: the items.
        rows: how each row is laid out.
        samples: the text, or the two texts, of each sample.
        ids: the token ids of each row.
        tokens: the tokens, in the order of their ids.
    """

    def __init__(
        self,
        values: dict[str, Any],
        *,
        rows: Sequence[Row] = (),
        samples: Sequence[Sample] = (),
        ids: Sequence[list[int]] = (),
        tokens: Sequence[str] = (),
    ) -> None:
        self._values = values
        self._rows = rows
        self._samples = samples
        self._ids = ids
        self._tokens = tokens

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

    def __repr__(self) -> str:
        return f"Encoding({self._values!r})"

    def tokens(self, row: int = 0) -> list[str]:
        """Return the tokens of a row, special tokens and padding among them."""
        self._row(row)
        return [self._tokens[token_id] for token_id in self._ids[row]]

    def word_ids(self, row: int = 0) -> list[int | None]:
        """Return the index of each token's word in its text; None at special tokens."""
        return self._values_of(row, lambda text: text.pieces.words)

    def sequence_ids(self, row: int = 0) -> list[int | None]:
        """Return 0 for tokens of the first text, 1 of the second, None at special tokens."""
        _, second = self._samples[self._row(row).sample]
        return self._values_of(row, lambda text: [int(text is second)] * len(text.ids))

    def to(self, device: Any) -> "Encoding":
        """Move all tensors to a torch device, in place, and return the encoding."""
        for name, value in self._values.items():
            if hasattr(value, "to"):
                self._values[name] = value.to(device)
        return self

    def _row(self, row: int) -> Row:
        if not self._rows:
            raise UserError("this encoding was not made from text: its tokens have no places")
        if not -len(self._rows) <= row < len(self._rows):
            raise UserError(f"row {row}: this encoding has {len(self._rows)} rows, from 0")
        return self._rows[row]

    def _values_of(self, index: int, values: Callable[[Text], Sequence[int]]) -> list[int | None]:
        row = self._row(index)
        first, second = self._samples[row.sample]
        return row.values(
            values(first), None if second is None else values(second), special=None, padding=None
        )


def lay_out(
    rows: Sequence[Row],
    samples: Sequence[Sample],
    vocabulary: Vocabulary,
    *,
    wanted: Mapping[str, bool],
    tensors: Tensors | None,
    single: bool,
) -> Encoding:
    """Make the encoding of rows.

    Args:
        rows: the rows, padded.
        samples: the text, or the two texts, of each sample.
        vocabulary: the tokens.
        wanted: item -> whether it is wanted.
        tensors: kind of tensors to make; None makes lists.
        single: whether to return the lists of the only row, instead of lists of rows.
    """
    pad_id = vocabulary.ids[vocabulary.special.pad_token]

    def row_ids(row: Row) -> list[int]:
        first, second = samples[row.sample]
        return row.ids(first.ids, None if second is None else second.ids, pad_id=pad_id)

    def row_offsets(row: Row) -> list[Offsets]:
        first, second = samples[row.sample]
        return row.values(
            first.pieces.offsets,
            None if second is None else second.pieces.offsets,
            special=(0, 0),
            padding=(0, 0),
        )

    columns: dict[str, Callable[[Row], Any]] = {
        "input_ids": row_ids,
        "token_type_ids": Row.type_ids,
        "attention_mask": Row.attention_mask,
        "special_tokens_mask": Row.special_tokens_mask,
        "offset_mapping": row_offsets,
        "length": len,
        "overflow_to_sample_mapping": lambda row: row.sample,
    }
    values: dict[str, Any] = {
        name: list(map(columns[name], rows)) for name in wanted if wanted[name]
    }
    all_ids = values["input_ids"]
    if tensors is not None:
        values = as_tensors(values, tensors)
    elif single:
        # As in the reference, the length stays a list.
        values = {name: row if name == "length" else row[0] for name, row in values.items()}
    return Encoding(values, rows=rows, samples=samples, ids=all_ids, tokens=vocabulary.tokens)


_PADDING = {"token_type_ids": 0, "attention_mask": 0, "special_tokens_mask": 1}
"""What fills up a row of each item besides the ids."""


def pad_values(
    encodings: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    plan: RowPlan,
    pad_token_id: int,
    attention_mask: bool,
) -> dict[str, Any]:
    """Pad encodings; see `BertTokenizer.pad`."""
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
    for name, filling in {"input_ids": pad_token_id, **_PADDING}.items():
        if name in values:
            columns = [values[name]] if single else values[name]
            padded = [row + [filling] * (width - len(row)) for row in columns]
            values[name] = padded[0] if single else padded
    return values


def _as_list(value: Any) -> Any:
    """Return the plain numbers of a tensor, of an array, or of a list of them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_as_list(item) for item in value] if isinstance(value, list | tuple) else value


def as_tensors(values: Mapping[str, list[Any]], kind: Tensors) -> dict[str, Any]:
    """Make int64 torch tensors or numpy arrays of lists.

    Raises:
        UserError: rows are not all of one length, or ``kind`` is neither ``"pt"`` nor ``"np"``.
    """
    for name, rows in values.items():
        lengths = {len(row) for row in rows if isinstance(row, list)}
        if len(lengths) > 1:
            raise UserError(
                f"{name}: rows of {min(lengths)} to {max(lengths)} tokens make no tensor; give "
                "padding=True, and truncation=True where texts are longer than max_length"
            )
    if kind == "pt":
        import torch

        return {name: torch.tensor(rows, dtype=torch.int64) for name, rows in values.items()}
    if kind == "np":
        import numpy

        return {name: numpy.array(rows, dtype=numpy.int64) for name, rows in values.items()}
    raise UserError(f"return_tensors {kind!r}: must be 'pt', 'np' or None")
