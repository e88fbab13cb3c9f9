"""The method ``generate`` of language models, which continue prompts.

Shapes: B batch, S prompt length, R texts per prompt, T tokens of the longest text, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Unpack, cast, overload

import torch
from torch import Tensor

from heedful.decoding.search import Hypothesis, Search
from heedful.errors import UserError
from heedful.models import generation
from heedful.models.generated_ids import (
    Generated,
    GenerateOptions,
    GenerationConfig,
    Generator,
    check_shape,
    generated_ids,
    is_search,
)
from heedful.models.outputs import Output
from heedful.models.with_head import ModelWithHead


@dataclass(frozen=True, kw_only=True)
class GenerateOutput(Output):
    """Output of ``generate`` with ``return_dict_in_generate``."""

    sequences: Tensor
    """The prompts with their texts. Shape (B * R, S + T)."""
    sequences_scores: Tensor | None = None
    """Of beam search, with ``output_scores``: the score of each text. Shape (B * R,)."""
    scores: tuple[Tensor, ...] | None = None
    """Of greedy search, with ``output_scores``: the logits of each new token. Each (B, V)."""


@overload
def generate(
    self: ModelWithHead,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    search: Search,
    item_seeds: Sequence[int] | None = None,
) -> list[list[Hypothesis]]: ...
@overload
def generate(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    inputs: Tensor | None = None,
    bos_token_id: int | None = None,
    return_dict_in_generate: Literal[True],
    output_scores: bool = False,
    **options: Unpack[GenerateOptions],
) -> GenerateOutput: ...
@overload
def generate(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    inputs: Tensor | None = None,
    bos_token_id: int | None = None,
    return_dict_in_generate: Literal[False] = False,
    output_scores: bool = False,
    **options: Unpack[GenerateOptions],
) -> Tensor: ...
def generate(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    search: Search | None = None,
    item_seeds: Sequence[int] | None = None,
    inputs: Tensor | None = None,
    bos_token_id: int | None = None,
    return_dict_in_generate: bool = False,
    output_scores: bool = False,
    **options: Unpack[GenerateOptions],
) -> list[list[Hypothesis]] | Tensor | GenerateOutput:
    """Continue each prompt; see ``generation.generate``.

    ``input_ids``, or ``inputs``, are the prompts, shape (B, S) with S at least 1. Without either,
    the prompt is ``bos_token_id``, by default that of the configuration. ``attention_mask`` is 1
    for a token and 0 for padding. ``generation.generate`` documents ``search`` (its ``options``),
    ``token_type_ids`` and ``item_seeds``. Without ``search``, the ``options`` are those of the
    reference's ``generate``, and the result is a tensor of the prompts with their texts, or with
    ``return_dict_in_generate`` an output, to which ``output_scores`` adds scores; see
    ``generated_ids.generated_ids``.
    """
    prompts = _prompts(self, input_ids, inputs, bos_token_id)
    if not is_search(search, item_seeds, options):
        model = cast(Generator, self)
        generated = generated_ids(model, prompts, attention_mask, token_type_ids, options)
        if not return_dict_in_generate:
            return generated.ids
        if not output_scores:
            return GenerateOutput(sequences=generated.ids)
        if token_type_ids is not None:
            raise UserError("output_scores is not supported with token_type_ids")
        return _with_scores(self, prompts, generated)
    if return_dict_in_generate:
        raise UserError("return_dict_in_generate is not for a search, whose texts have scores")
    if token_type_ids is not None:
        check_shape("token_type_ids", token_type_ids, prompts)
        if self.config.type_vocab_size and not token_type_ids.any():
            token_type_ids = None  # the default, with which the compiled form continues texts, too
    arguments = (prompts, attention_mask, search)
    texts = generation.generate(self, *arguments, None, item_seeds, token_type_ids)
    writer = cast(generation.TextGenerator, self)
    return generation.regenerate_close_calls(
        texts, writer, *arguments, item_seeds, token_type_ids=token_type_ids
    )


def _prompts(
    model: ModelWithHead, input_ids: Tensor | None, inputs: Tensor | None, start: int | None
) -> Tensor:
    """Return the prompts that the arguments give."""
    if input_ids is not None and inputs is not None:
        raise UserError("input_ids and inputs are given; they are two names of the prompts")
    given = inputs if input_ids is None else input_ids
    if given is not None:
        return given
    if start is None:
        start = GenerationConfig(cast(Generator, model)).bos_token_id
    if start is None:
        raise UserError("generate needs input_ids, or bos_token_id to begin texts with")
    return torch.tensor([[start]], device=model.device)


@torch.no_grad()
def _with_scores(model: ModelWithHead, prompts: Tensor, generated: Generated) -> GenerateOutput:
    """Return generated ids with their scores.

    Raises:
        UserError: the search changes the logits, so that its scores are not those of the model.
    """
    ids, search, mask = generated.ids, generated.search, generated.mask
    if search.num_beams > 1:
        return GenerateOutput(sequences=ids, sequences_scores=generated.scores)
    changes = {
        "do_sample": search.do_sample,
        "repetition_penalty": search.repetition_penalty != 1,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "min_new_tokens": search.min_new_tokens,
        "bad_words_ids": search.never,
    }
    for name, is_used in changes.items():
        if is_used:
            raise UserError(
                f"output_scores is not supported with {name}; call the model with the sequences "
                "for the logits of their tokens"
            )
    length = prompts.shape[1]
    scores = []
    for number, row in enumerate(ids):
        kept = row[:length] if mask is None else row[:length][mask[number].bool()]
        tokens = torch.cat([kept, row[length:]])[None]
        scores.append(model(tokens, use_cache=False).logits[0, len(kept) - 1 : -1])  # (T, V)
    return GenerateOutput(sequences=ids, scores=torch.stack(scores, 1).unbind())
