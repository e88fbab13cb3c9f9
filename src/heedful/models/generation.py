"""Generate text with a decoder: the search state of each hypothesis and the decoder step.

Shapes: B batch, N live hypotheses, S prompt length, E encoder length, D model width.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from heedful.decoding.sampling import checked_seeds
from heedful.decoding.search import (
    Hypothesis,
    Search,
    search,
    search_on_device,
    stays_on_device,
)
from heedful.device_transfer import copy_to_device, get_host_copy
from heedful.errors import UserError
from heedful.layers.cache import Cache
from heedful.models.decoders import EncoderOutput
from heedful.models.model import Model
from heedful.models.on_device import DecoderSteps, supports_device_search
from heedful.models.outputs import LanguageModelOutput

MAX_ROUNDING_ERROR = 5e-5
"""Bound on the float32 rounding error in the log-probability of a text. It is nearly three times
the largest error measured with a Transformer of the paper's base size."""


class TextGenerator(Protocol):
    """A model that generates texts."""

    @property
    def generate(self) -> Callable[..., list[list[Hypothesis]]]:
        """Generate a text for each item."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return its weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingState:
    """Search state of the hypotheses."""

    cache: Cache | None
    """KV cache of the tokens so far; None before the first token."""
    encoded: EncoderOutput | None
    """Encoder output that the decoder attends to, if any."""
    token_type: Tensor | None = None
    """Token type of each hypothesis' new tokens, if not the default. Shape (N, 1)."""

    def select(self, rows: Tensor) -> "DecodingState":
        """Return the given rows, shape (M,), in the given order."""
        return DecodingState(
            cache=None if self.cache is None else self.cache.select(rows),
            encoded=None if self.encoded is None else self.encoded.select(rows),
            token_type=None if self.token_type is None else self.token_type[rows],
        )


@torch.inference_mode()
def generate(
    decoder: Model,
    prompts: Tensor,
    prompt_mask: Tensor | None,
    options: Search,
    encoded: EncoderOutput | None = None,
    item_seeds: Sequence[int] | None = None,
    token_type_ids: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Continue each prompt.

    The decoder's compiled form and the on-device search continue all prompts in one batch.
    Otherwise only prompts of equal length share a batch, so that no padding precedes a new token.
    Relative positions would count that padding, and a text would depend on its batch.

    Args:
        decoder: a causal language model, such as ``BertLMHeadModel``.
        prompts: token ids. Shape (B, S).
        prompt_mask: 1 for a token, 0 for the padding after the last token. Shape (B, S).
        options: search options.
        encoded: encoder output that the decoder attends to; shapes (B, E, D) and (B, E).
        item_seeds: see ``search``.
        token_type_ids: token types of the prompts. Shape (B, S). A new token has that of the
            prompt's last.

    Returns:
        The hypotheses of each item; see ``decoding.search``.

    Raises:
        UserError: the model is not a decoder, a prompt is empty or has padding before its end, or
            the model has too few positions.
    """
    if not decoder.config.is_decoder:
        raise UserError("is_decoder is false in this model's config; only a decoder generates")
    lengths = lengths_of(prompts, prompt_mask)
    longest, limit = int(lengths.max()), decoder.max_positions
    needed = longest + options.max_new_tokens - 1
    if needed > limit:
        raise UserError(
            f"a prompt of {longest} tokens and max_new_tokens {options.max_new_tokens} "
            f"need {needed} positions; the model has {limit}"
        )

    def step(tokens: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
        output = _call(decoder, tokens[:, None], state, state.token_type)
        return output.logits[:, -1], replace(state, cache=output.past_key_values)

    item_seeds = checked_seeds(item_seeds, len(prompts))
    steps = getattr(decoder, "compiled_steps", None)
    last = prompts.gather(1, lengths[:, None] - 1).squeeze(1)  # (B,)
    counted = _tokens(prompts, lengths) if options.count_prompt else None
    plain = token_type_ids is None
    if steps is not None and encoded is None and steps.is_current and plain:
        start = steps.start(prompts, lengths)
        return search(steps.step, start, last, options, item_seeds, prompts=counted)
    if stays_on_device(prompts.device, options) and supports_device_search(decoder) and plain:
        fixed = DecoderSteps(decoder, prompts[:, :longest], lengths, encoded)
        return search_on_device(fixed, last, options)
    hypotheses: dict[int, list[Hypothesis]] = {}
    for length in sorted(set(lengths.tolist())):
        rows = (lengths == length).nonzero().squeeze(1)
        types = None if token_type_ids is None else token_type_ids[rows, :length]
        state = DecodingState(
            cache=None,
            encoded=None if encoded is None else encoded.select(rows),
            token_type=None if types is None else types[:, -1:],
        )
        if length > 1:  # the first step reads the last token
            before = None if types is None else types[:, :-1]
            output = _call(decoder, prompts[rows, : length - 1], state, before)
            state = replace(state, cache=output.past_key_values)
        items = rows.tolist()
        seeds = [item_seeds[item] for item in items]
        first = prompts[rows, length - 1]
        tokens = None if counted is None else [counted[item] for item in items]
        texts = search(step, state, first, options, seeds, prompts=tokens)
        hypotheses |= dict(zip(items, texts, strict=True))
    return [hypotheses[item] for item in range(len(prompts))]


def _tokens(prompts: Tensor, lengths: Tensor) -> list[list[int]]:
    """Return the tokens of each prompt, without padding."""
    rows = zip(prompts.tolist(), lengths.tolist(), strict=True)
    return [row[:length] for row, length in rows]


def regenerate_close_calls(
    hypotheses: list[list[Hypothesis]],
    model: TextGenerator,
    input_ids: Tensor,
    attention_mask: Tensor | None,
    options: Search,
    item_seeds: Sequence[int] | None,
    prefixes: Sequence[Sequence[int]] | None = None,
    token_type_ids: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Make each item's texts independent of its batch.

    A batch computes in other shapes than a single item, so results round differently. Rounding
    changes a text only if the margin of its search is that small. Such items are generated again,
    each in a batch of one. In half precision most items would be, so all texts stay unchanged.

    Args:
        hypotheses: texts of each item.
        model: the model that generated them.
        input_ids: input of the model. Shape (B, E).
        attention_mask: shape (B, E).
        options: search options.
        item_seeds: see the model's method.
        prefixes: see the model's method, if it takes prefixes.
        token_type_ids: see the model's method. Shape (B, E).
    """
    mask = None if attention_mask is None else attention_mask.bool()
    if len(hypotheses) == 1 and (mask is None or bool(mask.all())):
        return hypotheses
    if next(model.parameters()).dtype.itemsize < torch.float32.itemsize:
        return hypotheses

    def generate_alone(item: int) -> list[Hypothesis]:
        tokens = slice(None) if mask is None else mask[item]
        more: dict[str, object] = {}
        if prefixes is not None:
            more["prefixes"] = [prefixes[item]]
        if token_type_ids is not None:
            more["token_type_ids"] = token_type_ids[item, tokens][None]
        return model.generate(
            input_ids[item, tokens][None],
            search=options,
            item_seeds=[item if item_seeds is None else item_seeds[item]],
            **more,
        )[0]

    return [
        generate_alone(item) if min(text.margin for text in texts) < MAX_ROUNDING_ERROR else texts
        for item, texts in enumerate(hypotheses)
    ]


def _call(
    decoder: Model, ids: Tensor, state: DecodingState, token_type_ids: Tensor | None
) -> LanguageModelOutput:
    encoded = state.encoded
    output: LanguageModelOutput = decoder(
        ids,
        token_type_ids=token_type_ids,
        past_key_values=state.cache,
        # Needed only in the first call: later calls find its keys and values in the cache.
        encoder_hidden_states=encoded.hidden if encoded and state.cache is None else None,
        encoder_attention_mask=encoded.mask if encoded else None,
        use_cache=True,
    )
    return output


def lengths_of(prompts: Tensor, mask: Tensor | None) -> Tensor:
    """Return the number of tokens of each prompt. Shape (B,)."""
    batch, length = prompts.shape
    if mask is None:
        return torch.full((batch,), length, device=prompts.device)
    if mask.shape != prompts.shape:
        raise UserError(
            f"attention_mask has shape {tuple(mask.shape)}; it must be {(batch, length)}"
        )
    host_mask = get_host_copy(mask).bool()
    lengths = host_mask.sum(1)
    positions = torch.arange(length, device=host_mask.device)
    wrong = (host_mask != (positions < lengths[:, None])).any(1) | (lengths == 0)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise UserError(f"attention_mask: row {row} must be ones, then zeros, with at least a one")
    return copy_to_device(lengths, prompts.device)
