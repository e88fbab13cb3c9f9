"""What the rest of the package asks of a tokenizer, whatever way it cuts texts."""

import os
from collections.abc import Sequence
from typing import Any, Protocol

from heedful.tokens.layout import PairLayout
from heedful.tokens.pieces import Pieces
from heedful.tokens.vocabulary import Vocabulary


class Tokenizer(Protocol):
    """The tokenizer of a model that encodes texts.

    It alone knows which special tokens stand around texts, which ids they have, and how a token
    says that it goes on inside a word.
    """

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens."""

    @property
    def layout(self) -> PairLayout:
        """Which special tokens stand around a text, or around the two of a pair."""

    @property
    def words_at_spaces(self) -> bool:
        """Whether the words of `pieces` go from space to space, with punctuation in them."""

    @property
    def cls_token_id(self) -> int:
        """Begins a row."""

    @property
    def sep_token_id(self) -> int:
        """Ends a text."""

    @property
    def pad_token_id(self) -> int:
        """Fills a row up to the length of its batch."""

    @property
    def unk_token_id(self) -> int:
        """Stands for what cannot be put together from other tokens."""

    @property
    def mask_token(self) -> str:
        """What the user writes for a hidden token."""

    @property
    def mask_token_id(self) -> int | None:
        """Its id; None where the vocabulary has none."""

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of these and of all other special tokens."""

    def __len__(self) -> int:
        """Number of tokens."""

    def __hash__(self) -> int:
        """A tokenizer is equal to itself alone."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without special tokens."""

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice each came from and its word; no special tokens."""

    def continues_word(self, token_id: int) -> bool:
        """Tell whether a token goes on with the word before it."""

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens and without a mark at its start."""

    def continuation(self, ids: Sequence[int], after: Sequence[int]) -> str:
        """Return what other ids add to the text of some, and the space between, if any."""

    def identity(self) -> list[Any]:
        """Return all that decides ids, as plain values for JSON."""

    def tell_no_types(self) -> None:
        """Tell models no token types from now on, where they have only one."""

    def tell_types_alone(self) -> None:
        """Tell models the types of single texts, too, where they are told any."""

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the files that the reference reads, too."""
