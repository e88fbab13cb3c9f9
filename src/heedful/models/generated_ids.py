"""Generate with the reference's keyword arguments, and return token ids.

Shapes: B batch, S prompt length, R texts per prompt, T tokens of the longest text.
"""

from typing import Any, Protocol, TypedDict

import torch
from torch import Tensor

from heedful.decoding.search import Hypothesis, Search
from heedful.errors import UserError, check_known
from heedful.layers import masks

DEFAULT_NEW_TOKENS = 20
"""Number of tokens that the reference generates unless told otherwise."""
DEFAULT_TOP_K = 50
"""The reference's default of ``top_k`` for samples."""


class GenerateOptions(TypedDict, total=False):
    """The options of the reference's ``generate`` that give the same texts here."""

    max_new_tokens: int
    """Maximum number of tokens to generate, the end token included."""
    max_length: int
    """Instead, the maximum number of tokens of prompt and text."""
    min_new_tokens: int
    min_length: int
    """Instead, the minimum number of tokens of prompt and text."""
    num_beams: int
    num_return_sequences: int
    length_penalty: float
    no_repeat_ngram_size: int
    """No n-gram of this many tokens occurs twice in prompt and text; 0 for no limit."""
    repetition_penalty: float
    early_stopping: bool
    """False by default; see ``Search``."""
    do_sample: bool
    temperature: float
    top_k: int | None
    """None, or 0, is for all tokens."""
    top_p: float
    pad_token_id: int | None
    eos_token_id: int | None
    use_cache: bool
    """Makes no difference: a search always caches keys and values."""


class Generator(Protocol):
    """A model that continues prompts."""

    config: Any

    def generate(
        self, input_ids: Tensor, attention_mask: Tensor | None, *, search: Search
    ) -> list[list[Hypothesis]]:
        """Return texts for each prompt."""


def generated_ids(
    model: Generator, prompts: Tensor, mask: Tensor | None, options: GenerateOptions
) -> Tensor:
    """Continue each prompt, and return the prompts with their texts.

    Samples depend on torch's random state, which ``torch.manual_seed`` sets.

    Args:
        model: continues prompts.
        prompts: token ids, padded on either side. Shape (B, S).
        mask: 1 for a token, 0 for padding. Shape (B, S). None: all ids are tokens, except those of
            a padding token that is not the end token.
        options: the options. Missing ones have the reference's defaults.

    Returns:
        The prompts, each followed by a text with its end token, and padding. Shape (B * R, S + T).

    Raises:
        UserError: an option is unknown or not supported.
    """
    for option in options:
        check_known("option", option, GenerateOptions.__annotations__)
    end = options.get("eos_token_id")
    end = getattr(model.config, "eos_token_id", None) if end is None else end
    if end is None:
        raise UserError("eos_token_id is not in this model's configuration; give it")
    padding = options.get("pad_token_id")
    padding = getattr(model.config, "pad_token_id", None) if padding is None else padding
    padding = end if padding is None else padding
    if not hasattr(end, "__index__"):
        raise UserError(f"eos_token_id is {end!r}; it must be one token id")
    if prompts.ndim != 2 or not prompts.numel():
        raise UserError(f"input_ids has shape {tuple(prompts.shape)}; it must be (batch, length)")
    mask = masks.by_sequence(mask, len(prompts))
    if mask is not None and mask.shape != prompts.shape:
        shape, expected = tuple(mask.shape), tuple(prompts.shape)
        raise UserError(f"attention_mask has shape {shape}; it must be {expected}")
    if mask is None and padding != end:
        mask = prompts != padding
    search = _search(options, prompts.shape[1], end)
    texts = model.generate(*_padded_right(prompts, mask), search=search)
    rows = [_with_end(text, end) for item in texts for text in item]
    counts = torch.tensor([len(item) for item in texts], device=prompts.device)
    prompts = prompts.repeat_interleave(counts, 0)
    width = max(map(len, rows))
    new = [row + [padding] * (width - len(row)) for row in rows]
    return torch.cat([prompts, torch.tensor(new, device=prompts.device).view(len(new), -1)], 1)


def _search(options: GenerateOptions, prompt_length: int, end: int) -> Search:
    """Return the search with the given options."""
    samples, beams = options.get("do_sample", False), options.get("num_beams", 1)
    stops_early = options.get("early_stopping", False)
    if not isinstance(stops_early, bool):
        raise UserError(f"early_stopping is {stops_early!r}; it must be True or False")
    penalty = options.get("repetition_penalty", 1.0)
    longest = options.get("max_new_tokens")
    if longest is None:
        length = options.get("max_length")
        longest = DEFAULT_NEW_TOKENS if length is None else length - prompt_length
        if longest < 1:
            raise UserError(f"max_length is {length}; the prompts have {prompt_length} tokens")
    shortest = max(options.get("min_new_tokens", 0), options.get("min_length", 0) - prompt_length)
    return Search(
        eos_token_id=end,
        max_new_tokens=longest,
        min_new_tokens=shortest,
        num_beams=beams,
        num_return_sequences=options.get("num_return_sequences", 1),
        length_penalty=options.get("length_penalty", 1.0),
        early_stopping=stops_early or beams == 1,
        repetition_penalty=penalty,
        no_repeat_ngram=options.get("no_repeat_ngram_size", 0),
        # Only where it makes a difference: a search that counts the prompt leaves the GPU.
        count_prompt=penalty != 1 or bool(options.get("no_repeat_ngram_size")),
        penalise_logits=beams == 1,
        do_sample=samples,
        temperature=options.get("temperature", 1.0),
        top_k=options.get("top_k", DEFAULT_TOP_K) or 0 if samples else 0,
        top_p=options.get("top_p", 1.0),
        seed=int(torch.randint(2**31, ())) if samples else 0,
    )


def _padded_right(prompts: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Move padding from the start of each prompt to its end."""
    if mask is None:
        return prompts, None
    order = (mask == 0).int().argsort(dim=1, stable=True)  # (B, S), tokens first
    return prompts.gather(1, order), mask.gather(1, order)


def _with_end(text: Hypothesis, end: int) -> list[int]:
    return [*text.tokens, *([end] if text.ended else [])]
