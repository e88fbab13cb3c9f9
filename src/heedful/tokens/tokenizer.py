"""The calls of a tokenizer, with the reference's arguments and results, however it cuts texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import index
from typing import Any, overload

from heedful.errors import LONGEST_NAME, UserError, shorten
from heedful.scripts import close_up
from heedful.tokens.batch import Texts, Words, samples_of
from heedful.tokens.decode import tidy
from heedful.tokens.encoder import PieceEncoder, batch_of, pieces_of
from heedful.tokens.encoding import (
    Encoding,
    Tensors,
    as_tensors,
    encoding_of,
    pad_values,
)
from heedful.tokens.folder import TokenizerFiles, tells_types
from heedful.tokens.layout import PairLayout
from heedful.tokens.origin import Origin
from heedful.tokens.pieces import PieceBatch, PieceLists, Pieces
from heedful.tokens.plan import plan_rows
from heedful.tokens.vocabulary import Vocabulary

_CHANGEABLE = ("model_max_length", "clean_up_tokenization_spaces", "token_types", "layout")
"""Attributes of a tokenizer that each call reads."""

_SIDES = {"padding_side": "right", "truncation_side": "right"}
"""Attributes of the reference's tokenizers, and the one value that holds here."""


class ModelTokenizer:
    """Text to token ids with exact offsets, and back.

    What a call returns is what ``transformers`` 4.57's compiled tokenizers return, with these
    exceptions, each for a reason: no call cuts a text unless it says ``truncation``; offsets are
    always the slice a piece came from; an empty second text is a text; and text may hold lone
    surrogates, which are dropped.

    Args:
        encoder: how texts become pieces.
        vocabulary: the tokens.
        layout: the special tokens around texts.
        token_types: whether calls return token types unless told otherwise: where the model has
            embeddings for them.
        model_max_length: the longest row the model takes, in tokens; None if not known.
        clean_up_tokenization_spaces: whether `decode` tidies English punctuation by default.
    """

    words_at_spaces: bool = False
    """Whether words go from space to space, with punctuation in them."""

    def __init__(
        self,
        encoder: PieceEncoder,
        vocabulary: Vocabulary,
        layout: PairLayout,
        *,
        token_types: bool,
        model_max_length: int | None,
        clean_up_tokenization_spaces: bool,
    ) -> None:
        self._encoder = encoder
        self.vocabulary = vocabulary
        self.layout = layout
        self.token_types = token_types
        self.model_max_length = model_max_length
        self.clean_up_tokenization_spaces = clean_up_tokenization_spaces
        special, ids = vocabulary.special, vocabulary.ids
        self.unk_token, self.unk_token_id = special.unk_token, ids[special.unk_token]
        self.sep_token, self.sep_token_id = special.sep_token, ids[special.sep_token]
        self.pad_token, self.pad_token_id = special.pad_token, ids[special.pad_token]
        self.cls_token, self.cls_token_id = special.cls_token, ids[special.cls_token]
        self.mask_token, self.mask_token_id = special.mask_token, ids.get(special.mask_token)
        self.all_special_tokens = list(vocabulary.special_ids())
        self.all_special_ids = list(vocabulary.special_ids().values())

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, but none that rows would not follow, for they are made by now.

        Raises:
            UserError: it is such a one.
        """
        before = _SIDES.get(name, vars(self).get(name, value))
        if name not in _CHANGEABLE and not name.startswith("_") and value != before:
            raise UserError(
                f"{name} of a tokenizer is {before!r} and cannot be set; load one that has another"
                if name not in _SIDES
                else f"{name} cannot be {value!r}: rows are padded and cut on the {before}"
            )
        super().__setattr__(name, value)

    def _read_types(self, files: TokenizerFiles) -> None:
        """Tell models token types, and return them from calls, as a folder says."""
        told = tells_types(files, usual=self.token_types, second_type=self.layout.second_type)
        if told != self.token_types:
            self._tell_types(told)

    def tell_no_types(self) -> None:
        """Tell models no token types, and return none from calls: the model has only one."""
        self._tell_types(False)

    def tell_types_alone(self) -> None:
        """Tell models the types of single texts, too, where they are told any; see `PairLayout`."""
        self.layout = replace(self.layout, tells_alone=self.token_types)

    def _tell_types(self, told: bool) -> None:
        self.token_types = told
        self.layout = replace(self.layout, tells_types=told)

    def __len__(self) -> int:
        return len(self.vocabulary)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, and of rows that a model's embedding needs."""
        return len(self.vocabulary)

    def get_vocab(self) -> dict[str, int]:
        """Return token -> id."""
        return dict(self.vocabulary.ids)

    # Many texts, fast: ids alone.

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without special tokens.

        Raises:
            UserError: ``texts`` is one text, whose letters would be taken for texts.
        """
        if isinstance(texts, str):
            raise UserError("encode_batch takes a list of texts, not one text")
        return self._encoder.ids(texts)

    def num_special_tokens(self, pair: bool = False) -> int:
        """Return how many tokens `build_inputs` adds."""
        return self.layout.size(pair=pair)

    def build_inputs(
        self, first: Sequence[int], second: Sequence[int] | None = None
    ) -> tuple[list[int], list[int]]:
        """Put special tokens around the ids of a text, or of two.

        Returns:
            The ids and the type ids of the row.
        """
        types = self.layout.types(len(first), None if second is None else len(second))
        return self.layout.ids(first, second), types

    def pieces(self, text: str) -> Pieces:
        """Return the ids of a text, the slice each came from and its word; no special tokens."""
        return self._encoder.pieces(text)

    # The call.

    def __call__(
        self,
        text: Texts,
        text_pair: Texts | None = None,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        is_split_into_words: bool = False,
        pad_to_multiple_of: int | None = None,
        return_tensors: Tensors | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool = True,
        return_overflowing_tokens: bool = False,
        return_special_tokens_mask: bool = False,
        return_offsets_mapping: bool = False,
        return_length: bool = False,
    ) -> Encoding:
        """Encode one text or many, singly or in pairs, for a model.

        Args:
            text: one text or many; see ``is_split_into_words``. Many may be pairs of texts.
            text_pair: the second texts.
            add_special_tokens: whether special tokens stand around texts.
            padding: True or ``"longest"`` pads to the longest row, ``"max_length"`` to
                ``max_length``.
            truncation: True or ``"longest_first"`` cuts the longer text of a pair until both are
                equally long, then both; ``"only_first"`` and ``"only_second"`` cut that one.
                Without it nothing is cut.
            max_length: tokens of a row, special ones counted; ``model_max_length`` if not given.
            stride: how many tokens neighbouring windows of a text share.
            is_split_into_words: whether each text is a list of words. Offsets are then those in
                the word, and word ids those in the list.
            pad_to_multiple_of: what the length of padded rows is a multiple of.
            return_tensors: ``"pt"`` or ``"np"`` for int64 tensors or arrays.
            return_token_type_ids: whether to return ``token_type_ids``: 1 in second texts. By
                default where the model tells texts by them.
            return_attention_mask: whether to return ``attention_mask``: 0 in padding.
            return_overflowing_tokens: whether what does not fit gets rows of its own, with
                ``overflow_to_sample_mapping``: which text each row is of.
            return_special_tokens_mask: whether to return ``special_tokens_mask``: 1 in special
                tokens and padding.
            return_offsets_mapping: whether to return ``offset_mapping``: start and end of the
                slice of its text that a token came from; (0, 0) in special tokens.
            return_length: whether to return ``length``: the tokens of each row.

        Returns:
            ``input_ids`` and what else was asked for, as lists of one row a text (one list for
            one text without tensors or windows).

        Raises:
            UserError: an argument is not allowed, or rows of different lengths were to be tensors.
        """
        plan = plan_rows(
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            stride=stride,
            overflow=return_overflowing_tokens,
            pad_to_multiple_of=pad_to_multiple_of,
            layout=self.layout if add_special_tokens else self.layout.bare(),
            model_max_length=self.model_max_length,
        )
        if return_token_type_ids is None:
            return_token_type_ids = self.token_types
        samples = samples_of(text, text_pair, words=is_split_into_words)
        is_pair = [second is not None for second in samples.seconds]
        located = return_offsets_mapping
        pieces = batch_of(self._encoder, samples.firsts, words=is_split_into_words, located=located)
        second_pieces: PieceBatch = PieceLists.none(len(is_pair))
        if any(is_pair):
            none: Words = [] if is_split_into_words else ""
            seconds = [none if second is None else second for second in samples.seconds]
            second_pieces = batch_of(
                self._encoder, seconds, words=is_split_into_words, located=located
            )
        rows = plan.rows(pieces.bound_list(), second_pieces.bound_list(), is_pair)
        origin = Origin(
            rows=rows,
            texts=samples.firsts,
            second_texts=samples.seconds,
            pieces=pieces,
            second_pieces=second_pieces,
            locate=partial(pieces_of, self._encoder),
            vocabulary=self.vocabulary,
        )
        return encoding_of(
            origin,
            wanted={
                "input_ids": True,
                "token_type_ids": return_token_type_ids,
                "attention_mask": return_attention_mask,
                "special_tokens_mask": return_special_tokens_mask,
                "offset_mapping": return_offsets_mapping,
                "length": return_length,
                "overflow_to_sample_mapping": return_overflowing_tokens,
            },
            tensors=return_tensors,
            single=not samples.many and not return_overflowing_tokens,
        )

    encode_plus = batch_encode_plus = __call__
    """What older code calls it."""

    def encode(
        self,
        text: Words,
        text_pair: Words | None = None,
        add_special_tokens: bool = True,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        is_split_into_words: bool = False,
        return_tensors: Tensors | None = None,
    ) -> list[int] | Any:
        """Return the ids of one text or pair: a list, or a tensor (1, S); see `__call__`."""
        return self(
            text,
            text_pair,
            add_special_tokens=add_special_tokens,
            truncation=truncation,
            max_length=max_length,
            is_split_into_words=is_split_into_words,
            return_tensors=return_tensors,
        )["input_ids"]

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text, without special tokens around them."""
        if not isinstance(text, str):
            raise UserError(f"text is a {type(text).__name__}: tokenize takes one text")
        return self.convert_ids_to_tokens(self.encode_batch([text])[0])

    def pad(
        self,
        encoded_inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_attention_mask: bool = True,
        return_tensors: Tensors | None = None,
    ) -> Encoding:
        """Pad encodings that were made without padding.

        Args:
            encoded_inputs: one encoding, or a list of those of single texts, as a data loader
                hands them to its collate function. What is not a list of one value a token is
                passed on as it is.
            padding: see `__call__`.
            max_length: see `__call__`.
            pad_to_multiple_of: see `__call__`.
            return_attention_mask: whether to make an ``attention_mask`` where there is none.
            return_tensors: see `__call__`.

        Raises:
            UserError: there are no ``input_ids``, or an argument is not allowed.
        """
        plan = plan_rows(
            padding=padding,
            truncation=False,
            max_length=max_length,
            stride=0,
            overflow=False,
            pad_to_multiple_of=pad_to_multiple_of,
            layout=self.layout.bare(),
            model_max_length=self.model_max_length,
        )
        values = pad_values(encoded_inputs, plan, self.pad_token_id, return_attention_mask)
        return Encoding(values if return_tensors is None else as_tensors(values, return_tensors))

    # Between tokens and ids, and back to text.

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...
    @overload
    def convert_tokens_to_ids(self, tokens: list[str] | tuple[str, ...]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | list[str] | tuple[str, ...]) -> int | list[int]:
        """Return the id of a token, or of each; the unknown token's where there is none."""
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
        """Return the token of an id, or of each.

        Raises:
            UserError: an id is not one of the vocabulary, or no whole number.
        """
        if isinstance(ids, int):
            return self.vocabulary.token(ids)
        skipped = set(self.all_special_ids) if skip_special_tokens else set()
        return [self.vocabulary.token(one) for one in _whole(ids) if one not in skipped]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Join tokens to text."""
        return self._encoder.join(tokens, mark=True)

    def decode(
        self,
        token_ids: int | Iterable[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        """Return a text that reads like the ids; case and spaces may not be those of the input.

        Args:
            token_ids: ids, as a list, an array or a tensor of one dimension.
            skip_special_tokens: whether to leave out special tokens.
            clean_up_tokenization_spaces: whether to close up the spaces of English punctuation;
                the tokenizer's own setting if not given.

        Raises:
            UserError: an id is not one of the vocabulary.
        """
        alone = isinstance(token_ids, int) or getattr(token_ids, "ndim", 1) == 0
        ids: Any = [token_ids] if alone else token_ids
        text = self._encoder.join(self.convert_ids_to_tokens(ids, skip_special_tokens), mark=True)
        if clean_up_tokenization_spaces is None:
            clean_up_tokenization_spaces = self.clean_up_tokenization_spaces
        return tidy(text) if clean_up_tokenization_spaces else text

    def batch_decode(
        self,
        sequences: Iterable[Iterable[int]],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> list[str]:
        """Return the text of each sequence of ids; see `decode`."""
        return [
            self.decode(ids, skip_special_tokens, clean_up_tokenization_spaces) for ids in sequences
        ]

    def text_of(self, ids: Iterable[int]) -> str:
        """Return the text of ids, without special tokens and without a mark at its start."""
        tokens = self.convert_ids_to_tokens(ids, skip_special_tokens=True)
        text = tidy(self._encoder.join(tokens, mark=False))
        return text if self._encoder.writes_spaces else close_up(text)

    def continuation(self, ids: Sequence[int], after: Sequence[int]) -> str:
        """Return what other ids add to the text of some.

        Put behind it, both are the whole text, if tokens have spaces. Those of WordPiece have none:
        then it is the text of these ids alone.

        Args:
            ids: of what is added. Special tokens are left out.
            after: of the text before.
        """
        if not self._encoder.writes_spaces:
            return self.text_of(ids)
        before, whole = (
            self._encoder.join(
                self.convert_ids_to_tokens(some, skip_special_tokens=True), mark=False
            )
            for some in (after, [*after, *ids])
        )
        return whole[len(before) :]

    def continues_word(self, token_id: int) -> bool:
        """Tell whether a token goes on with the word before it."""
        return self._encoder.continues_word(self.vocabulary.token(token_id))


def _whole(ids: Iterable[Any]) -> list[int]:
    """Return token ids of any kind, of a tensor or an array, too, as Python's numbers.

    Raises:
        UserError: they are something else.
    """
    try:
        return [index(one) for one in ids]
    except TypeError:
        shown = shorten(repr(ids), LONGEST_NAME)
        raise UserError(
            f"token ids {shown}: expected whole numbers; batch_decode takes lists of them"
        ) from None
