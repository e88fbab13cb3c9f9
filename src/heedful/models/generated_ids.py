"""Generate with the reference's keyword arguments, and return token ids.

Shapes: B batch, S prompt length, R texts per prompt, T tokens of the longest text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypedDict, TypeGuard, cast

import torch
from torch import Tensor

from heedful.decoding.options import NO_TOKEN, check_whole
from heedful.decoding.search import Hypothesis, Search
from heedful.errors import UserError, check_known
from heedful.layers import masks
from heedful.models.generation_defaults import supported

DEFAULT_NEW_TOKENS = 20
"""Number of tokens that the reference generates unless told otherwise."""
DEFAULT_TOP_K = 50
"""The reference's default of ``top_k`` for samples."""


_WHOLE = {
    *("max_new_tokens", "max_length", "min_new_tokens", "min_length"),
    *("num_beams", "num_return_sequences", "no_repeat_ngram_size", "top_k"),
}
"""Options that are whole numbers."""


class GenerateOptions(TypedDict, total=False):
    """The options of the reference's ``generate`` that give the same texts here."""

    max_new_tokens: int | None
    """Maximum number of tokens to generate, the end token included."""
    max_length: int | None
    """Instead, the maximum number of tokens of prompt and text."""
    min_new_tokens: int | None
    min_length: int | None
    """Instead, the minimum number of tokens of prompt and text."""
    num_beams: int | None
    num_return_sequences: int | None
    length_penalty: float | None
    no_repeat_ngram_size: int | None
    """No n-gram of this many tokens occurs twice in prompt and text; 0 for no limit."""
    repetition_penalty: float | None
    early_stopping: bool | None
    """False by default; see ``Search``."""
    do_sample: bool | None
    temperature: float | None
    top_k: int | None
    """None, or 0, is for all tokens."""
    top_p: float | None
    bad_words_ids: list[list[int]] | None
    """Tokens that are never generated, each in a list of its own."""
    pad_token_id: int | None
    eos_token_id: int | None
    """None is for texts that only end at the maximum length."""
    use_cache: bool | None
    """Makes no difference: a search always caches keys and values."""


_DEFAULTS: Mapping[str, Any] = {
    "max_length": DEFAULT_NEW_TOKENS,
    "min_length": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "length_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "early_stopping": False,
    "do_sample": False,
    "temperature": 1.0,
    "top_k": DEFAULT_TOP_K,
    "top_p": 1.0,
    "use_cache": True,
}
"""The reference's defaults that are not None."""

_ATTRIBUTES = frozenset({*GenerateOptions.__annotations__, "bos_token_id"})
"""Attributes of a `GenerationConfig`."""


class GenerationConfig:
    """The defaults of ``generate`` of a model as attributes, which can be set.

    Args:
        model: the model, whose ``generation_defaults`` they are.
    """

    _model: "Generator"

    def __init__(self, model: "Generator") -> None:
        vars(self)["_model"] = model

    def __getattr__(self, name: str) -> Any:
        if name not in _ATTRIBUTES:
            raise AttributeError(f"generation_config has no {name}")
        config = getattr(self._model.config, "decoder", self._model.config)
        of_config = getattr(config, name, None) if name.endswith("_token_id") else None
        return self._model.generation_defaults.get(name, _DEFAULTS.get(name, of_config))

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a default of the model.

        Raises:
            UserError: ``generate`` has no such option.
        """
        check_known("attribute of generation_config", name, _ATTRIBUTES)
        self._model.generation_defaults = {**self._model.generation_defaults, name: value}


class Generator(Protocol):
    """A model that continues prompts, or writes a text for each source text."""

    config: Any
    generation_defaults: Mapping[str, Any]

    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        *,
        search: Search,
    ) -> list[list[Hypothesis]]:
        """Return texts for each input."""


class Generated(NamedTuple):
    """Generated texts as token ids."""

    ids: Tensor
    """The prompts, each followed by a text with its end token, and padding. Shape (B * R, S + T).
    """
    scores: Tensor
    """The score of each text. Shape (B * R,)."""
    search: Search
    """The search that generated them."""
    mask: Tensor | None
    """The mask of the inputs. Shape (B, S)."""


def is_search(
    search: Search | None, item_seeds: Sequence[int] | None, options: Mapping[str, object]
) -> TypeGuard[Search]:
    """Return whether a call of ``generate`` gives a search; else the options are for it.

    Raises:
        UserError: arguments of both kinds of calls are given.
    """
    if search is None and item_seeds is not None:
        raise UserError("item_seeds are for a search; give search, too")
    if search is not None and options:
        raise UserError(f"search and {next(iter(options))} are given; put all options into search")
    return search is not None


def generated_ids(
    model: Generator,
    inputs: Tensor,
    mask: Tensor | None,
    token_type_ids: Tensor | None,
    options: GenerateOptions,
    *,
    start: int | None = None,
) -> Generated:
    """Continue each prompt, and return the prompts with their texts.

    Samples depend on torch's random state, which ``torch.manual_seed`` sets.

    Args:
        model: continues prompts, or writes texts.
        inputs: token ids of the prompts, padded on either side, or of the sources. Shape (B, S).
        mask: 1 for a token, 0 for padding. Shape (B, S). None: all ids are tokens, except those of
            a padding token that is not the end token.
        token_type_ids: token types of the inputs; new tokens have that of the last. Shape (B, S).
        options: the options. Missing ones have the model's defaults, or else the reference's. None
            stands for no limit or effect, and for no end token.
        start: first token of a decoder with a source, which is the prompt then. None: the inputs
            are the prompts.

    Raises:
        UserError: an option is unknown or not supported.
    """
    for option in options:
        check_known("option", option, GenerateOptions.__annotations__)
    defaults = supported(model.generation_defaults, GenerateOptions.__annotations__)
    merged = cast(GenerateOptions, {**defaults, **options})
    end, padding = _special_tokens(model.config, merged)
    if inputs.ndim != 2 or not inputs.numel():
        raise UserError(f"input_ids has shape {tuple(inputs.shape)}; it must be (batch, length)")
    mask = masks.by_sequence(mask, len(inputs))
    for name, tensor in (("attention_mask", mask), ("token_type_ids", token_type_ids)):
        if tensor is not None:
            check_shape(name, tensor, inputs)
    if mask is None and padding is not None and padding != end:
        mask = inputs != padding
    prompts, input_mask = inputs, mask
    if start is None:
        inputs, mask, token_type_ids = _padded_right(inputs, mask, token_type_ids)
    else:
        prompts = inputs.new_full((len(inputs), 1), start)
    search = _search(merged, prompts.shape[1], end)
    texts = model.generate(inputs, mask, token_type_ids, search=search)
    rows = [_with_end(text, search.eos_token_id) for item in texts for text in item]
    counts = torch.tensor([len(item) for item in texts], device=prompts.device)
    prompts = prompts.repeat_interleave(counts, 0)
    width, filler = max(map(len, rows)), end if padding is None else padding
    new = [row + [filler or 0] * (width - len(row)) for row in rows]
    ids = torch.cat([prompts, torch.tensor(new, device=prompts.device).view(len(new), -1)], 1)
    scores = torch.tensor([text.score for item in texts for text in item], device=ids.device)
    return Generated(ids, scores, search, input_mask)


def check_shape(name: str, value: Tensor, inputs: Tensor) -> None:
    """Check that an argument has a value for each token of the inputs.

    Raises:
        UserError: it has another shape.
    """
    if value.shape != inputs.shape:
        shape, expected = tuple(value.shape), tuple(inputs.shape)
        raise UserError(f"{name} has shape {shape}; it must be {expected}")


def _special_tokens(config: Any, options: GenerateOptions) -> tuple[int | None, int | None]:
    """Return the end token and the padding token, each None if there is none."""
    config = getattr(config, "decoder", config)
    tokens = []
    for name, token in (
        ("eos_token_id", options.get("eos_token_id", getattr(config, "eos_token_id", None))),
        ("pad_token_id", options.get("pad_token_id", getattr(config, "pad_token_id", None))),
    ):
        if token is not None and (isinstance(token, bool) or not hasattr(token, "__index__")):
            raise UserError(f"{name} is {token!r}; it must be one token id")
        tokens.append(None if token is None else int(token))
    return tokens[0], tokens[1]


def _search(options: GenerateOptions, prompt_length: int, end: int | None) -> Search:
    """Return the search with the given options."""
    chosen: Any = {name: value for name, value in options.items() if value is not None}
    for name in _WHOLE & chosen.keys():
        check_whole(name, chosen[name])
    samples, beams = chosen.get("do_sample", False), chosen.get("num_beams", 1)
    stops_early = chosen.get("early_stopping", False)
    if not isinstance(stops_early, bool):
        raise UserError(f"early_stopping is {stops_early!r}; it must be True or False")
    penalty = chosen.get("repetition_penalty", 1.0)
    longest = chosen.get("max_new_tokens")
    if longest is None:
        length = chosen.get("max_length")
        longest = DEFAULT_NEW_TOKENS if length is None else length - prompt_length
        if longest < 1:
            raise UserError(f"max_length is {length}; the prompts have {prompt_length} tokens")
    shortest = chosen.get("min_new_tokens")
    if shortest is None:
        shortest = max(chosen.get("min_length", 0) - prompt_length, 0)
    never = _never(chosen.get("bad_words_ids", []), end)
    if end is not None and shortest >= longest:  # then no text ends before the longest length
        never, end = (*never, end), None
    return Search(
        eos_token_id=NO_TOKEN if end is None else end,
        max_new_tokens=longest,
        min_new_tokens=0 if end is None else shortest,
        num_beams=beams,
        num_return_sequences=chosen.get("num_return_sequences", 1),
        length_penalty=chosen.get("length_penalty", 1.0),
        early_stopping=stops_early or beams == 1,
        repetition_penalty=penalty,
        no_repeat_ngram=chosen.get("no_repeat_ngram_size", 0),
        # Only where it makes a difference: a search that counts the prompt leaves the GPU.
        count_prompt=penalty != 1 or bool(chosen.get("no_repeat_ngram_size")),
        penalise_logits=beams == 1,
        do_sample=samples,
        temperature=chosen.get("temperature", 1.0),
        # None is for all tokens here.
        top_k=options.get("top_k", DEFAULT_TOP_K) or 0 if samples else 0,
        top_p=chosen.get("top_p", 1.0),
        seed=int(torch.randint(2**31, ())) if samples else 0,
        never=never,
    )


def _never(bad_words: Any, end: int | None) -> tuple[int, ...]:
    """Return the tokens that the reference's ``bad_words_ids`` forbid; the end token never is."""
    if not isinstance(bad_words, list) or not all(
        isinstance(word, list) and len(word) == 1 and type(word[0]) is int for word in bad_words
    ):
        raise UserError(
            f"bad_words_ids is {bad_words!r}; expected words of one token, like [[5], [7]]"
        )
    return tuple(word[0] for word in bad_words if word[0] != end)


def _padded_right(
    prompts: Tensor, mask: Tensor | None, token_type_ids: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Move padding from the start of each prompt to its end."""
    if mask is None:
        return prompts, None, token_type_ids
    order = (mask == 0).int().argsort(dim=1, stable=True)  # (B, S), tokens first
    types = None if token_type_ids is None else token_type_ids.gather(1, order)
    return prompts.gather(1, order), mask.gather(1, order), types


def _with_end(text: Hypothesis, end: int) -> list[int]:
    return [*text.tokens, *([end] if text.ended else [])]
