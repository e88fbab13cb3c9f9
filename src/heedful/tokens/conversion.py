"""The tokens of a tokenizer: their ids, their text, and how to add more."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, overload

from heedful.arguments import suggest_arguments
from heedful.errors import UserError, check_known
from heedful.scripts import remove_extra_spaces
from heedful.tokens.additions import (
    ADDITIONAL,
    AddedToken,
    NewSpecialTokens,
    NewToken,
    NewTokens,
    as_added,
    described,
    extended,
    read_new_special,
    renamed,
)
from heedful.tokens.decode import as_ints, clean_up_spaces
from heedful.tokens.encoder import PieceEncoder
from heedful.tokens.layout import PairLayout
from heedful.tokens.vocabulary import SpecialTokens, Vocabulary

_CHANGEABLE = ("model_max_length", "clean_up_tokenization_spaces", "token_types", "layout")
"""Attributes that may be set, because each call reads them."""

SIDES = ("left", "right")
"""The sides on which rows can be padded."""

NAMES: Mapping[str, str] = {name: name for name in SpecialTokens().named()}
"""The reference's name of a special token -> the field of `SpecialTokens`."""
NAMES_WITH_ENDS = {"bos_token": "cls_token", "eos_token": "sep_token", **NAMES}
"""Like `NAMES`, for models whose texts begin and end with the tokens that surround them."""


class TokenConverter(ABC):
    """Converts between tokens, ids and text.

    Args:
        vocabulary: the tokens.
        encoder: makes what converts texts to pieces, for a vocabulary.
        layout: returns the special tokens around texts, for a vocabulary.
        clean_up_tokenization_spaces: whether `decode` cleans up English punctuation by default.
    """

    _names: ClassVar[Mapping[str, str]] = NAMES
    """The reference's names of the special tokens -> the field of `SpecialTokens`."""

    name_or_path: str = ""
    """What `from_pretrained` was given."""
    truncation_side: str = "right"
    """The side of a row that is cut."""
    vocabulary: Vocabulary
    layout: PairLayout
    model_max_length: int | None
    unk_token: str
    unk_token_id: int
    sep_token: str
    sep_token_id: int
    pad_token: str
    pad_token_id: int
    cls_token: str
    cls_token_id: int
    mask_token: str
    mask_token_id: int | None
    bos_token: str | None
    bos_token_id: int | None
    eos_token: str | None
    eos_token_id: int | None
    all_special_tokens: list[str]
    all_special_ids: list[int]
    _encoder: PieceEncoder

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        encoder: Callable[[Vocabulary], PieceEncoder],
        layout: Callable[[Vocabulary], PairLayout],
        clean_up_tokenization_spaces: bool,
    ) -> None:
        self._make_encoder = encoder
        self._make_layout = layout
        self.clean_up_tokenization_spaces = clean_up_tokenization_spaces
        self._use(vocabulary, layout(vocabulary))

    def _use(self, vocabulary: Vocabulary, layout: PairLayout) -> None:
        """Take a vocabulary, and set all that depends on it."""
        special, ids = vocabulary.special.named(), vocabulary.ids
        named = {name: special[field] for name, field in {**NAMES, **self._names}.items()}
        vars(self).update(
            _encoder=self._make_encoder(vocabulary),
            vocabulary=vocabulary,
            layout=layout,
            all_special_tokens=list(vocabulary.special_ids()),
            all_special_ids=list(vocabulary.special_ids().values()),
            **named,
            **{f"{name}_id": ids.get(token) for name, token in named.items()},
        )
        for name in ("bos_token", "eos_token"):  # which some kinds do not have
            vars(self).setdefault(name, None)
            vars(self).setdefault(f"{name}_id", None)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, if a change can still affect later calls.

        Raises:
            UserError: the attribute is fixed when the tokenizer is built, or a special token is
                not in the vocabulary.
        """
        if name in self._names:
            self._rename(self.vocabulary, {self._names[name]: str(value)})
            return
        if name in NAMES_WITH_ENDS and value is not None:
            known = ", ".join(self._names)
            raise UserError(f"{type(self).__name__} has no {name}; it has {known}")
        if name.endswith("_id") and name.removesuffix("_id") in self._names:
            setattr(self, name.removesuffix("_id"), self.convert_ids_to_tokens(value))
            return
        if name == "truncation_side" and value != "right":
            raise UserError(f"truncation_side cannot be {value!r}: rows are cut on the right")
        before = vars(self).get(name, value)
        if name not in _CHANGEABLE and not name.startswith("_") and value != before:
            raise UserError(
                f"{name} of a tokenizer is {before!r} and cannot be set; load one that has another"
            )
        super().__setattr__(name, value)

    # The special tokens of a row.

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Return the number of special tokens in a row of one text or of a pair."""
        return self.layout.size(pair=pair)

    @property
    def max_len_single_sentence(self) -> int | None:
        """Maximum length of a text without special tokens; None if the model's is unknown."""
        return self._room(pair=False)

    @property
    def max_len_sentences_pair(self) -> int | None:
        """Maximum length of a pair without special tokens; None if the model's is unknown."""
        return self._room(pair=True)

    def _room(self, *, pair: bool) -> int | None:
        longest = self.model_max_length
        return None if longest is None else longest - self.num_special_tokens_to_add(pair)

    def build_inputs_with_special_tokens(
        self, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """Add special tokens to the ids of a text or a pair."""
        return self.layout.ids(token_ids_0, token_ids_1)

    def create_token_type_ids_from_sequences(
        self, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """Return the token types of a row with special tokens, given the ids of its texts."""
        second = None if token_ids_1 is None else len(token_ids_1)
        return self.layout.types(len(token_ids_0), second)

    def get_special_tokens_mask(
        self,
        token_ids_0: Sequence[int],
        token_ids_1: Sequence[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """Return 1 for each special token of a row and 0 for each other token.

        Args:
            token_ids_0: ids of a text, or of the whole row.
            token_ids_1: ids of the second text.
            already_has_special_tokens: whether ``token_ids_0`` is the whole row.
        """
        if already_has_special_tokens:
            special = set(self.all_special_ids)
            return [int(token_id in special) for token_id in as_ints(token_ids_0)]
        second = None if token_ids_1 is None else [0] * len(token_ids_1)
        return self.layout.values([0] * len(token_ids_0), second, special=1)

    # The tokens.

    def __len__(self) -> int:
        return len(self.vocabulary)

    @property
    def vocab_size(self) -> int:
        """Number of tokens without those that were added; ``len(tokenizer)`` includes them."""
        return len(self.vocabulary) - self.vocabulary.added

    def get_vocab(self) -> dict[str, int]:
        """Return the vocabulary as a mapping from token to id."""
        return dict(self.vocabulary.ids)

    vocab = property(get_vocab)

    @property
    def ids_to_tokens(self) -> dict[int, str]:
        """The vocabulary as a mapping from id to token."""
        return dict(enumerate(self.vocabulary.tokens))

    @property
    def special_tokens_map(self) -> dict[str, str | list[str]]:
        """The special tokens of this vocabulary by name."""
        special, ids = self.vocabulary.special, self.vocabulary.ids
        named = {name: getattr(special, field) for name, field in self._names.items()}
        tokens: dict[str, str | list[str]] = {
            name: token for name, token in named.items() if token in ids
        }
        more = [*special.additional_special_tokens]
        return {**tokens, **({ADDITIONAL: more} if more else {})}

    @property
    def padding_side(self) -> str:
        """The side of a row that is padded: ``"right"``, or ``"left"`` to continue texts."""
        return SIDES[not self.layout.pads_left]

    @padding_side.setter
    def padding_side(self, side: str) -> None:
        check_known("padding_side", side, SIDES)
        self.layout = replace(self.layout, pads_left=side == "left")

    @property
    def additional_special_tokens(self) -> list[str]:
        """The special tokens without a name."""
        return [*self.vocabulary.special.additional_special_tokens]

    @property
    def additional_special_tokens_ids(self) -> list[int]:
        """The ids of the special tokens without a name."""
        return [self.vocabulary.ids[token] for token in self.additional_special_tokens]

    def get_added_vocab(self) -> dict[str, int]:
        """Return all tokens that are never split, special or not, with their ids, by id."""
        ids = self.vocabulary.added_ids()
        return {token: ids[token] for token in sorted(ids, key=ids.__getitem__)}

    added_tokens_encoder = property(get_added_vocab)

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """The ids of all tokens that are never split, with the tokens and their options."""
        tokens = described(self.vocabulary)
        return {token_id: tokens[token] for token, token_id in self.get_added_vocab().items()}

    def add_tokens(self, new_tokens: NewToken | NewTokens, special_tokens: bool = False) -> int:
        """Add tokens that are never split.

        A model needs an embedding for each: ``model.resize_token_embeddings(len(tokenizer))``.

        Args:
            new_tokens: one or more tokens. One that is in the vocabulary keeps its id.
            special_tokens: whether they are special: matched in the text as it is, in its case,
                and omitted by `decode` with ``skip_special_tokens``.

        Returns:
            The number of tokens that are new or have new options.

        Raises:
            UserError: one is not a token, or begins or ends with white space.
        """
        if isinstance(new_tokens, str | AddedToken):
            new_tokens = [new_tokens]
        tokens = [as_added(token, special=special_tokens) for token in new_tokens]
        return self._add(tokens, {})

    def add_special_tokens(self, special_tokens_dict: Mapping[str, NewToken | NewTokens]) -> int:
        """Choose special tokens, and add those that are new; see `add_tokens`.

        Args:
            special_tokens_dict: the name of a special token, such as ``"pad_token"``, and the
                token; or ``"additional_special_tokens"`` and a list of tokens. Tokens that were
                special before stay so.

        Returns:
            The number of tokens that are new or have new options.

        Raises:
            UserError: this tokenizer has no special token of that name, or a value is not a token.
        """
        return self._add(*read_new_special(special_tokens_dict, self._names))

    def _add_options(self, options: NewSpecialTokens, of: Callable[..., object]) -> None:
        """Choose special tokens, given as options of a function with further ones."""
        names = [*self._names, ADDITIONAL]
        others = {*signature(of).parameters} - {"special_tokens"}
        for option in options:
            check_known("option", option, {*names, *others})
        # The reference adds them in this order, whatever that of the options is.
        new = {name: token for name in names if (token := options.get(name)) is not None}
        if new:
            self.add_special_tokens(new)  # type: ignore[arg-type]

    def _add(self, tokens: Sequence[AddedToken], named: Mapping[str, str]) -> int:
        before = described(self.vocabulary)
        new = {token.content: token for token in tokens if token.content}
        changed = [token for content, token in new.items() if before.get(content) != token]
        vocabulary = extended(self.vocabulary, changed) if changed else self.vocabulary
        self._rename(vocabulary, named)
        return len(changed)

    def _rename(self, vocabulary: Vocabulary, named: Mapping[str, str]) -> None:
        """Take a vocabulary, with other named special tokens."""
        vocabulary = renamed(vocabulary, named) if named else vocabulary
        made, layout = self._make_layout(vocabulary), self.layout
        if {"cls_token", "sep_token"} & named.keys():
            layout = replace(layout, begin=made.begin, middle=made.middle, end=made.end)
        self._use(vocabulary, layout)

    @abstractmethod
    def _vocabulary_files(self) -> Mapping[str, Callable[[Path], object]]:
        """Return the names of the vocabulary's files, and what writes each to a path."""

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Write the vocabulary without settings and added tokens; `save_pretrained` writes all.

        Args:
            save_directory: the folder.
            filename_prefix: start of the files' names, before a hyphen.

        Returns:
            The paths of the files.

        Raises:
            UserError: the class stores its vocabulary in a file that this tokenizer lacks.
        """
        start = f"{filename_prefix}-" if filename_prefix else ""
        writers = self._vocabulary_files()
        Path(save_directory).mkdir(parents=True, exist_ok=True)
        paths = {Path(save_directory, start + name): write for name, write in writers.items()}
        for path, write in paths.items():
            write(path)
        return tuple(map(str, paths))

    # Conversion.

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...
    @overload
    def convert_tokens_to_ids(self, tokens: list[str] | tuple[str, ...]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | list[str] | tuple[str, ...]) -> int | list[int]:
        """Return the id of one token or of each token; the unknown token's id for other tokens."""
        ids = self.vocabulary.ids
        if isinstance(tokens, str):
            return ids.get(tokens, self.unk_token_id)
        return [ids.get(token, self.unk_token_id) for token in tokens]

    @overload
    def convert_ids_to_tokens(self, ids: int, skip_special_tokens: bool = False) -> str: ...
    @overload
    def convert_ids_to_tokens(
        self, ids: Iterable[int], skip_special_tokens: bool = False
    ) -> list[str]: ...
    def convert_ids_to_tokens(
        self, ids: int | Iterable[int], skip_special_tokens: bool = False
    ) -> str | list[str]:
        """Return the token of one id or of each id.

        Raises:
            UserError: an id is not in the vocabulary, or not an integer.
        """
        if isinstance(ids, int):
            return self.vocabulary.token(ids)
        skipped = set(self.all_special_ids) if skip_special_tokens else set()
        return [self.vocabulary.token(one) for one in as_ints(ids) if one not in skipped]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Join tokens into text."""
        return self._encoder.join(tokens, mark=True)

    @suggest_arguments
    def decode(
        self,
        token_ids: int | Iterable[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        """Convert token ids to text. Case and spaces may differ from the original text.

        Args:
            token_ids: ids, as a list or a one-dimensional array or tensor.
            skip_special_tokens: whether to omit special tokens.
            clean_up_tokenization_spaces: whether to remove spaces before English punctuation;
                the tokenizer's setting by default.

        Raises:
            UserError: an id is not in the vocabulary.
        """
        is_single = isinstance(token_ids, int) or getattr(token_ids, "ndim", 1) == 0
        ids: Any = [token_ids] if is_single else token_ids
        text = self._encoder.join(self.convert_ids_to_tokens(ids, skip_special_tokens), mark=True)
        if clean_up_tokenization_spaces is None:
            clean_up_tokenization_spaces = self.clean_up_tokenization_spaces
        return clean_up_spaces(text) if clean_up_tokenization_spaces else text

    @suggest_arguments
    def batch_decode(
        self,
        sequences: Iterable[Iterable[int]],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        """Return the text of each sequence of token ids; see `decode`."""
        return [
            self.decode(ids, skip_special_tokens, clean_up_tokenization_spaces) for ids in sequences
        ]

    def text_of(self, ids: Iterable[int]) -> str:
        """Return the text of token ids, without special tokens and a leading mark."""
        tokens = self.convert_ids_to_tokens(ids, skip_special_tokens=True)
        text = clean_up_spaces(self._encoder.join(tokens, mark=False))
        return text if self._encoder.writes_spaces else remove_extra_spaces(text)

    def continuation(self, ids: Sequence[int], after: Sequence[int]) -> str:
        """Return the text that token ids append to the text of earlier ids.

        If tokens contain spaces, both texts concatenated are the whole text. WordPiece tokens
        contain none: for these, this is the text of ``ids``, without a space in front.

        Args:
            ids: token ids to append. Special tokens are skipped.
            after: token ids of the text before.
        """
        if not self._encoder.writes_spaces:
            return self.text_of(ids)
        before, whole = (
            self._encoder.join(
                self.convert_ids_to_tokens(part_ids, skip_special_tokens=True), mark=False
            )
            for part_ids in (after, [*after, *ids])
        )
        return whole[len(before) :]

    def continues_word(self, token_id: int) -> bool:
        """Return whether a token continues the word before it."""
        return self._encoder.continues_word(self.vocabulary.token(token_id))
