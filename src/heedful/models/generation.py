"""Texts from a decoder: what a search keeps of each hypothesis, and how a decoder scores the next.

Shapes: B items, N hypotheses that go on, S prompt length, E encoder's length, D model width.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from heedful.decoding.search import (
    Hypothesis,
    Search,
    search,
    search_on_device,
    stays_on_device,
)
from heedful.errors import UserError
from heedful.host import on_host, send
from heedful.layers.cache import Cache
from heedful.models.decoders import Encoded
from heedful.models.model import Model
from heedful.models.on_device import DecoderSteps, can_stay
from heedful.models.outputs import LanguageModelOutput

ROUNDING = 5e-5
"""What the rounding of float32 may add up to in the log-probability of a text: nearly three times
the most that was seen of a Transformer of the paper's base size."""


class TextGenerator(Protocol):
    """A model that generates texts."""

    @property
    def generate(self) -> Callable[..., list[list[Hypothesis]]]:
        """Generate a text for each item."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return its weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """What a search keeps of each hypothesis."""

    cache: Cache | None
    """Of the tokens so far; None before the first."""
    encoded: Encoded | None

    def select(self, rows: Tensor) -> "Decoded":
        """Return some rows, shape (M,), in that order."""
        return Decoded(
            cache=None if self.cache is None else self.cache.select(rows),
            encoded=None if self.encoded is None else self.encoded.select(rows),
        )


@torch.inference_mode()
def generate(
    decoder: Model,
    prompts: Tensor,
    prompt_mask: Tensor | None,
    options: Search,
    encoded: Encoded | None = None,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Continue each prompt.

    A decoder's compiled form continues all prompts together, and so does a search that stays on a
    device. Else those of one length are, so that no padding stands before what is new: relative
    positions count it, and a text would depend on its neighbours.

    Args:
        decoder: a model with a head of next pieces, such as ``BertLMHeadModel``.
        prompts: token ids. Shape (B, S).
        prompt_mask: 1 for a token and 0 for the padding after the last. Shape (B, S).
        options: how to look.
        encoded: what the decoder attends to, besides; shapes (B, E, D) and (B, E).
        numbers: what an item's draws depend on beside the seed; None takes its number in the batch.

    Returns:
        For each item its hypotheses; see ``decoding.search``.

    Raises:
        UserError: the model is no decoder, a prompt is empty or padded before its end, or there are
            too few positions.
    """
    if not decoder.config.is_decoder:
        raise UserError("is_decoder is false in this model's config; only a decoder generates")
    lengths = lengths_of(prompts, prompt_mask)
    longest, most = int(lengths.max()), decoder.max_positions
    needed = longest + options.max_new_tokens - 1
    if needed > most:
        raise UserError(
            f"a prompt of {longest} tokens and max_new_tokens {options.max_new_tokens} "
            f"need {needed} positions; the model has {most}"
        )

    def step(tokens: Tensor, state: Decoded) -> tuple[Tensor, Decoded]:
        output = _call(decoder, tokens[:, None], state)
        return output.logits[:, -1], Decoded(cache=output.past_key_values, encoded=state.encoded)

    drawn = range(len(prompts)) if numbers is None else numbers
    steps = getattr(decoder, "compiled_steps", None)
    last = prompts.gather(1, lengths[:, None] - 1).squeeze(1)  # (B,)
    if steps is not None and encoded is None and steps.is_current:
        return search(steps.step, steps.start(prompts, lengths), last, options, drawn)
    if stays_on_device(prompts.device, options) and can_stay(decoder):
        fixed = DecoderSteps(decoder, prompts[:, :longest], lengths, encoded)
        return search_on_device(fixed, last, options)
    hypotheses: dict[int, list[Hypothesis]] = {}
    for length in sorted(set(lengths.tolist())):
        rows = (lengths == length).nonzero().squeeze(1)
        state = Decoded(cache=None, encoded=None if encoded is None else encoded.select(rows))
        if length > 1:  # all but the last token, which the first step scores
            output = _call(decoder, prompts[rows, : length - 1], state)
            state = Decoded(cache=output.past_key_values, encoded=state.encoded)
        items = rows.tolist()
        draws = [drawn[item] for item in items]
        texts = search(step, state, prompts[rows, length - 1], options, draws)
        hypotheses |= dict(zip(items, texts, strict=True))
    return [hypotheses[item] for item in range(len(prompts))]


def settle_alone(
    hypotheses: list[list[Hypothesis]],
    model: TextGenerator,
    input_ids: Tensor,
    attention_mask: Tensor | None,
    options: Search,
    numbers: Sequence[int] | None,
    prefixes: Sequence[Sequence[int]] | None = None,
    token_type_ids: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Give each item the texts that it gets alone.

    Beside others an item is computed in other shapes, which round differently. That changes its
    texts only where its search was decided by no more than rounding, and such items are written
    again, alone. In half precision, which rounds so coarsely that this would be most of them, the
    texts stay.

    Args:
        hypotheses: the texts of each item.
        model: wrote them.
        input_ids: what it read. Shape (B, E).
        attention_mask: shape (B, E).
        options: how to look.
        numbers: see the model's method.
        prefixes: see the model's method, if it takes any.
        token_type_ids: the same. Shape (B, E).
    """
    real = None if attention_mask is None else attention_mask.bool()
    if len(hypotheses) == 1 and (real is None or bool(real.all())):
        return hypotheses
    if next(model.parameters()).dtype.itemsize < torch.float32.itemsize:
        return hypotheses

    def alone(item: int) -> list[Hypothesis]:
        kept = slice(None) if real is None else real[item]
        more: dict[str, object] = {}
        if prefixes is not None:
            more["prefixes"] = [prefixes[item]]
        if token_type_ids is not None:
            more["token_type_ids"] = token_type_ids[item, kept][None]
        return model.generate(
            input_ids[item, kept][None],
            search=options,
            numbers=[item if numbers is None else numbers[item]],
            **more,
        )[0]

    return [
        alone(item) if min(text.margin for text in texts) < ROUNDING else texts
        for item, texts in enumerate(hypotheses)
    ]


def _call(decoder: Model, ids: Tensor, state: Decoded) -> LanguageModelOutput:
    encoded = state.encoded
    output: LanguageModelOutput = decoder(
        ids,
        past_key_values=state.cache,
        # Read once: the cache then has its keys and values.
        encoder_hidden_states=encoded.hidden if encoded and state.cache is None else None,
        encoder_attention_mask=encoded.mask if encoded else None,
        use_cache=True,
    )
    return output


def lengths_of(prompts: Tensor, mask: Tensor | None) -> Tensor:
    """Return how many tokens each prompt has. Shape (B,)."""
    batch, length = prompts.shape
    if mask is None:
        return torch.full((batch,), length, device=prompts.device)
    if mask.shape != prompts.shape:
        raise UserError(
            f"attention_mask has shape {tuple(mask.shape)}; it must be {(batch, length)}"
        )
    known = on_host(mask).bool()
    lengths = known.sum(1)
    positions = torch.arange(length, device=known.device)
    wrong = (known != (positions < lengths[:, None])).any(1) | (lengths == 0)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise UserError(f"attention_mask: row {row} must be ones, then zeros, with at least a one")
    return send(lengths, prompts.device)
