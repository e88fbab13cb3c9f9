"""The public interface of all model tokenizers, with the reference's arguments and results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, Unpack

from heedful.arguments import suggest_arguments
from heedful.errors import UserError
from heedful.tokens.batch import Samples, Texts, Words, samples_of
from heedful.tokens.conversion import TokenConverter
from heedful.tokens.decode import as_ints
from heedful.tokens.encoder import PieceEncoder, batch_of, pieces_of, spelled_of
from heedful.tokens.encoding import Encoding, Tensors, encoding_of, pad_encodings
from heedful.tokens.folder import TYPES, TokenizerFiles, reads_token_types, row_entries
from heedful.tokens.layout import PairLayout
from heedful.tokens.origin import Origin
from heedful.tokens.pieces import PieceBatch, PieceLists, Pieces
from heedful.tokens.plan import plan_rows
from heedful.tokens.rows import Rows
from heedful.tokens.vocabulary import Vocabulary

if TYPE_CHECKING:  # importing numpy is slow, and a few short texts do not need it
    from heedful.tokens.arrays import PieceArrays


class CallOptions(TypedDict, total=False):
    """Options of `ModelTokenizer.__call__`, which documents them."""

    padding: bool | str
    truncation: bool | str | None
    max_length: int | None
    is_split_into_words: bool
    pad_to_multiple_of: int | None
    return_tensors: Tensors | None
    return_token_type_ids: bool | None
    return_attention_mask: bool
    return_special_tokens_mask: bool
    return_offsets_mapping: bool
    return_length: bool
    stride: int
    return_overflowing_tokens: bool


class ModelTokenizer(TokenConverter):
    """Converts text to token ids with exact offsets, and back.

    Calls return the same results as the compiled tokenizers of ``transformers`` 4.57, with four
    deliberate exceptions. Text is truncated only if ``truncation`` is given. Offsets are always
    the exact slice of a piece. An empty second text counts as a text. Text may contain lone
    surrogates, which are dropped.

    Args:
        vocabulary: the tokens.
        encoder: makes what converts texts to pieces, for a vocabulary.
        layout: returns the special tokens around texts, for a vocabulary.
        token_types: whether calls return token types by default. True if the model has embeddings
            for them.
        model_max_length: the model's maximum sequence length in tokens; None if unknown.
        clean_up_tokenization_spaces: whether `decode` cleans up English punctuation by default.
    """

    is_fast: ClassVar[bool] = True
    """True as of the reference's compiled tokenizers: calls know the offsets of tokens."""
    words_at_spaces: bool = False
    """Whether words are split only at spaces and so include punctuation."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        encoder: Callable[[Vocabulary], PieceEncoder],
        layout: Callable[[Vocabulary], PairLayout],
        token_types: bool,
        model_max_length: int | None,
        clean_up_tokenization_spaces: bool,
    ) -> None:
        self.token_types = token_types
        self.model_max_length = model_max_length
        super().__init__(
            vocabulary,
            encoder=encoder,
            layout=layout,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
        )

    def _apply_rows(self, files: TokenizerFiles, padding_side: str | None) -> None:
        """Apply the settings of rows: a folder's token types, and a user's or its padding side."""
        side = files.config.get("padding_side") if padding_side is None else padding_side
        if side is not None:
            self.padding_side = side
        on = reads_token_types(files, default=self.token_types, second_type=self.layout.second_type)
        if on != self.token_types:
            self._set_token_types(on)

    def _row_entries(self, *, default: bool) -> dict[str, Any]:
        """Return the settings of rows that a folder keeps.

        Args:
            default: whether models receive token types by default.
        """
        default_layout = self._make_layout(self.vocabulary)
        return row_entries(self.layout, default_layout, types=self.token_types, default=default)

    def disable_token_types(self) -> None:
        """Disable token types in calls and for models: the model has only one type."""
        self._set_token_types(False)

    def enable_single_text_types(self) -> None:
        """Pass token types of single texts to models too, if enabled at all; see `PairLayout`."""
        self.layout = replace(self.layout, types_single_texts=self.token_types)

    def _set_token_types(self, enabled: bool) -> None:
        self.token_types = enabled
        self.layout = replace(self.layout, uses_token_types=enabled)

    # Fast encoding of many texts to ids.

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without special tokens.

        Raises:
            UserError: ``texts`` is a single string, whose characters would be read as texts.
        """
        if isinstance(texts, str):
            raise UserError("encode_batch takes a list of texts, not one text")
        return self._encoder.ids(texts)

    @property
    def model_input_names(self) -> list[str]:
        """The names of the items of a call that models receive."""
        return ["input_ids", *([TYPES] if self.token_types else []), "attention_mask"]

    def pieces(self, text: str) -> Pieces:
        """Return the ids, offsets and word indices of a text's tokens, without special tokens."""
        return self._encoder.pieces(text)

    def located_batch(self, texts: Sequence[str]) -> "PieceArrays":
        """Return the ids, offsets and first pieces of words of each text, without special tokens.

        This is faster than `pieces` for thousands of characters.
        """
        return self._encoder.batch(texts, located=True).arrays()

    # Calls.

    @suggest_arguments
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
        """Encode one or more texts or pairs of texts for a model.

        Args:
            text: one text or a list; see ``is_split_into_words``. A list may hold pairs of texts.
            text_pair: the second texts.
            add_special_tokens: whether to add special tokens.
            padding: True or ``"longest"`` pads to the longest row, ``"max_length"`` to
                ``max_length``.
            truncation: True or ``"longest_first"`` cuts the longer text of a pair until both are
                equally long, then both. ``"only_first"`` and ``"only_second"`` cut one text.
                By default, nothing is cut.
            max_length: maximum row length with special tokens; default ``model_max_length``.
            stride: number of tokens shared by adjacent windows of a text.
            is_split_into_words: whether each text is a list of words. Offsets are then relative to
                the word, and word ids are indices into the list.
            pad_to_multiple_of: pad rows to a multiple of this length.
            return_tensors: ``"pt"`` or ``"np"`` for int64 tensors or arrays.
            return_token_type_ids: whether to return ``token_type_ids``: 1 for second texts. By
                default, only if the model uses token types.
            return_attention_mask: whether to return ``attention_mask``: 0 for padding.
            return_overflowing_tokens: whether truncated tokens get further rows. Adds
                ``overflow_to_sample_mapping``: the index of each row's text.
            return_special_tokens_mask: whether to return ``special_tokens_mask``: 1 for special
                tokens and padding.
            return_offsets_mapping: whether to return ``offset_mapping``: start and end of each
                token in its text; (0, 0) for special tokens.
            return_length: whether to return ``length``: the number of tokens of each row.

        Returns:
            ``input_ids`` and the other requested items, as lists with one row per text. A single
            text without tensors or windows gives flat lists.

        Raises:
            UserError: an argument is invalid, or rows of different lengths cannot form tensors.
        """
        plan = plan_rows(
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            stride=stride,
            overflow=return_overflowing_tokens,
            pad_to_multiple_of=pad_to_multiple_of,
            layout=self.layout if add_special_tokens else self.layout.without_special_tokens(),
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
            empty: Words = [] if is_split_into_words else ""
            seconds = [empty if second is None else second for second in samples.seconds]
            second_pieces = batch_of(
                self._encoder, seconds, words=is_split_into_words, located=located
            )
        rows = plan.rows(pieces.bound_list(), second_pieces.bound_list(), is_pair)
        return encoding_of(
            self._origin(rows, samples, pieces, second_pieces),
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

    def _origin(
        self, rows: Rows, samples: Samples, pieces: PieceBatch, second_pieces: PieceBatch
    ) -> Origin:
        """Return what an encoding is made from."""
        return Origin(
            rows=rows,
            texts=samples.firsts,
            second_texts=samples.seconds,
            pieces=pieces,
            second_pieces=second_pieces,
            locate=partial(pieces_of, self._encoder),
            spell=partial(spelled_of, self._encoder),
            vocabulary=self.vocabulary,
        )

    batch_encode_plus = __call__
    """Name of `__call__` in older code."""

    def encode_plus(
        self,
        text: Words | Sequence[int],
        text_pair: Words | Sequence[int] | None = None,
        add_special_tokens: bool = True,
        **options: Unpack[CallOptions],
    ) -> Encoding:
        """Encode one text or pair for a model; see `__call__`.

        As in the reference, a list is one text: its tokens, as `tokenize` returns them, or their
        ids.
        """
        if not _is_row(text) or options.get("is_split_into_words"):
            return self(text, text_pair, add_special_tokens, **options)  # type: ignore[arg-type]
        named: dict[str, Any] = {**options, "prepend_batch_axis": "return_tensors" in options}
        named.pop("is_split_into_words", None)
        second = None if text_pair is None else self._as_ids(text_pair)
        return self.prepare_for_model(self._as_ids(text), second, add_special_tokens, **named)

    def _as_ids(self, text: Words | Sequence[int]) -> list[int]:
        """Return the ids of a text: a string, its tokens, or the ids themselves."""
        if isinstance(text, str):
            return self._encoder.ids([text])[0]
        known = self.vocabulary.ids
        return [known.get(one, self.unk_token_id) if isinstance(one, str) else one for one in text]

    @suggest_arguments
    def prepare_for_model(
        self,
        ids: Sequence[int],
        pair_ids: Sequence[int] | None = None,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: Tensors | None = None,
        return_token_type_ids: bool | None = None,
        return_attention_mask: bool = True,
        return_special_tokens_mask: bool = False,
        return_length: bool = False,
        prepend_batch_axis: bool = False,
    ) -> Encoding:
        """Make a row for a model from the ids of a text or pair, without special tokens.

        Args:
            ids: ids of the text.
            pair_ids: ids of the second text.
            add_special_tokens: see `__call__`, also for the following arguments.
            padding: see `__call__`.
            truncation: see `__call__`.
            max_length: see `__call__`.
            pad_to_multiple_of: see `__call__`.
            return_tensors: see `__call__`.
            return_token_type_ids: see `__call__`.
            return_attention_mask: see `__call__`.
            return_special_tokens_mask: see `__call__`.
            return_length: see `__call__`.
            prepend_batch_axis: whether tensors have the shape (1, S) rather than (S,).

        Raises:
            UserError: an argument is invalid, or an id is not in the vocabulary.
        """
        plan = plan_rows(
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            stride=0,
            overflow=False,
            pad_to_multiple_of=pad_to_multiple_of,
            layout=self.layout if add_special_tokens else self.layout.without_special_tokens(),
            model_max_length=self.model_max_length,
        )
        first, second = as_ints(ids), None if pair_ids is None else as_ints(pair_ids)
        self.convert_ids_to_tokens([*first, *(second or [])])  # checks them
        pieces, second_pieces = (PieceLists.of([row or []]) for row in (first, second))
        rows = plan.rows(pieces.bound_list(), second_pieces.bound_list(), [second is not None])
        types = self.token_types if return_token_type_ids is None else return_token_type_ids
        no_texts = Samples(firsts=[""], seconds=[None], many=False)
        encoding = encoding_of(
            self._origin(rows, no_texts, pieces, second_pieces),
            wanted={
                "input_ids": True,
                "token_type_ids": types,
                "attention_mask": return_attention_mask,
                "special_tokens_mask": return_special_tokens_mask,
                "length": return_length,
            },
            tensors=return_tensors,
            single=True,
        )
        flat = return_tensors is not None and not prepend_batch_axis
        return Encoding({name: row[0] if flat else row for name, row in encoding.items()})

    @suggest_arguments
    def encode(
        self,
        text: Words | Sequence[int],
        text_pair: Words | Sequence[int] | None = None,
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool | str | None = None,
        max_length: int | None = None,
        is_split_into_words: bool = False,
        return_tensors: Tensors | None = None,
    ) -> list[int] | Any:
        """Return the ids of a text or pair as a list or a (1, S) tensor; see `__call__`.

        A text may also be a list of its tokens, as `tokenize` returns them, or of their ids.
        """
        return self.encode_plus(
            text,
            text_pair,
            add_special_tokens,
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            is_split_into_words=is_split_into_words,
            return_tensors=return_tensors,
        )["input_ids"]

    @property
    def pad_token_type_id(self) -> int:
        """Token type of padding."""
        return self.layout.padding_type

    def tokenize(
        self, text: str, pair: str | None = None, add_special_tokens: bool = False
    ) -> list[str]:
        """Return the tokens of a text or a pair.

        As in the reference, a unigram tokenizer returns text that it does not know as it is.

        Args:
            text: the text.
            pair: the second text, if any.
            add_special_tokens: whether to add the special tokens of a row.
        """
        if pair is not None or add_special_tokens:
            return self(text, pair, add_special_tokens=add_special_tokens).tokens()
        if not isinstance(text, str):
            raise UserError(f"text is a {type(text).__name__}: tokenize takes one text")
        return self._encoder.spelled(text)

    @suggest_arguments
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
            encoded_inputs: one encoding, or a list of encodings of single texts, as a data loader
                passes them to its collate function. Only items with one value per token are
                padded; others are returned unchanged.
            padding: see `__call__`.
            max_length: see `__call__`.
            pad_to_multiple_of: see `__call__`.
            return_attention_mask: whether to add a missing ``attention_mask``.
            return_tensors: see `__call__`; by default, tensors if the ids are tensors.

        Raises:
            UserError: ``input_ids`` are missing, or an argument is invalid.
        """
        plan = plan_rows(
            padding=padding,
            truncation=False,
            max_length=max_length,
            stride=0,
            overflow=False,
            pad_to_multiple_of=pad_to_multiple_of,
            layout=self.layout.without_special_tokens(),
            model_max_length=self.model_max_length,
        )
        return pad_encodings(
            encoded_inputs, plan, self.pad_token_id, return_attention_mask, return_tensors
        )


def _is_row(text: object) -> bool:
    """Return whether a text is a list of tokens or of ids."""
    return isinstance(text, list | tuple) and len(text) > 0 and isinstance(text[0], str | int)
