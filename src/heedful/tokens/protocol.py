"""The tokenizer interface that the rest of the package relies on."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from heedful.tokens.layout import PairLayout
from heedful.tokens.pieces import Pieces
from heedful.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:  # importing numpy is slow, and a few short texts do not need it
    from heedful.tokens.arrays import PieceArrays


class Tokenizer(Protocol):
    """The tokenizer of an encoder model.

    Only the tokenizer knows the special tokens around texts, their ids, and how a token marks that
    it continues a word.
    """

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens."""

    @property
    def layout(self) -> PairLayout:
        """The special tokens around a text or a pair of texts."""

    @property
    def words_at_spaces(self) -> bool:
        """Whether the words of `pieces` are split only at spaces and so include punctuation."""

    @property
    def cls_token_id(self) -> int:
        """Id of the token that begins a row."""

    @property
    def sep_token_id(self) -> int:
        """Id of the token that ends a text."""

    @property
    def pad_token_id(self) -> int:
        """Id of the padding token, which fills a row up to the length of its batch."""

    @property
    def unk_token_id(self) -> int:
        """Id of the unknown token, which replaces text that no other tokens spell."""

    @property
    def mask_token(self) -> str:
        """The mask token, which users write for a token to be predicted."""

    @property
    def mask_token_id(self) -> int | None:
        """Id of the mask token; None if the vocabulary has none."""

    @property
    def all_special_ids(self) -> list[int]:
        """Ids of all special tokens, including those above."""

    def __len__(self) -> int:
        """Number of tokens."""

    def __hash__(self) -> int:
        """Hash by identity: a tokenizer equals only itself."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text, without special tokens."""

    def pieces(self, text: str) -> Pieces:
        """Return the ids, offsets and word indices of a text's tokens, without special tokens."""

    def located_batch(self, texts: Sequence[str]) -> "PieceArrays":
        """Return the pieces of each text as arrays, with offsets; see `pieces`."""

    def continues_word(self, token_id: int) -> bool:
        """Return whether a token continues the word before it."""

    def text_of(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, without special tokens and a leading mark."""

    def continuation(self, ids: Sequence[int], after: Sequence[int]) -> str:
        """Return the text that token ids append to the text of earlier ids, with any space."""

    def identity(self) -> list[Any]:
        """Return everything that affects token ids, as JSON-serializable values."""

    def disable_token_types(self) -> None:
        """Disable token types: the model has only one type."""

    def enable_single_text_types(self) -> None:
        """Pass token types of single texts to models too, if token types are enabled at all."""

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write tokenizer files that the reference can read."""
