"""The heads of GPT-2's double-heads model: a language model and a score for each choice.

Shapes: B batch, C choices, S length, D model width, V vocabulary, N scored positions or texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful import losses
from heedful.errors import UserError
from heedful.layers.cache import Cache
from heedful.layers.dropout import Dropout
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.linear import Linear
from heedful.models.forwards import (
    check_choices,
    flat_choices,
    keeps_cache,
    language_logits,
    mean,
)
from heedful.models.gpt2.config import GPT2Config
from heedful.models.heads import summarised
from heedful.models.labels import class_loss
from heedful.models.language_heads import LanguageHead
from heedful.models.outputs import BertModelOutput, Output
from heedful.models.with_head import ModelWithHead


@dataclass(frozen=True, kw_only=True)
class GPT2DoubleHeadsModelOutput(Output):
    """Output of ``GPT2DoubleHeadsModel``."""

    loss: Tensor | None = None
    """Mean language model loss over the labels, if ``labels`` are given. Shape ()."""
    mc_loss: Tensor | None = None
    """Mean loss of the choices, if ``mc_labels`` are given. Shape ()."""
    logits: Tensor
    """Next-token logits. Shape (B, C, S, V)."""
    mc_logits: Tensor
    """Logits of the choices. Shape (B, C); (B, C, D) if the configuration does not project to one
    logit."""
    past_key_values: Cache | None = None
    """KV cache of the B * C sequences, if requested."""
    hidden_states: tuple[Tensor, ...] | None = None
    """Embeddings and the output of each block, if requested. Each of shape (B * C, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """Attention weights of each block, if requested. Each of shape (B * C, H, S, T)."""


class ChoiceSummary(nn.Module):
    """Summary vector of a text, processed as the options ``summary_...`` say.

    Args:
        config: configuration with these options.
    """

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.kind = config.summary_type
        self.dropout = Dropout(config.summary_first_dropout)
        width = 1 if config.summary_proj_to_labels else config.n_embd
        self.summary = Linear(config.n_embd, width) if config.summary_use_proj else None
        name = config.summary_activation
        self.activation = ACTIVATIONS[name] if name else None

    def forward(self, hidden: Tensor, real: Tensor | None, tokens: Tensor | None) -> Tensor:
        """Return shape (N, 1), or (N, D) without a projection to one logit.

        Args:
            hidden: hidden states. Shape (N, S, D).
            real: padding mask, nonzero for a token; None if there is no padding. Shape (N, S).
            tokens: position of the token to read; None takes the last token. Shape (N,).
        """
        vectors = self.dropout(self._vectors(hidden, real, tokens))
        if self.summary is not None:
            vectors = self.summary(vectors)
        return vectors if self.activation is None else self.activation(vectors)

    def _vectors(self, hidden: Tensor, real: Tensor | None, tokens: Tensor | None) -> Tensor:
        if tokens is None or self.kind != "cls_index":
            return summarised(hidden, self.kind, real)
        return hidden[torch.arange(len(hidden), device=hidden.device), tokens]


class DoubleHead(nn.Module):
    """The two heads of the double-heads model.

    Args:
        predictions: head that predicts the next token.
        choice: head that scores each choice.
    """

    def __init__(self, predictions: LanguageHead, choice: ChoiceSummary) -> None:
        super().__init__()
        self.predictions = predictions
        self.choice = choice


def predict_next_and_choose(
    self: ModelWithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    past_key_values: Cache | Sequence[Sequence[Tensor]] | None = None,
    use_cache: bool | None = None,
    mc_token_ids: Tensor | None = None,
    labels: Tensor | None = None,
    mc_labels: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> GPT2DoubleHeadsModelOutput:
    """Return the next-token logits of the C choices of each example, and a logit for each choice.

    Arguments of shape (B, ...) in the body's ``forward`` have shape (B, C, ...) here. ``labels``
    are the token ids of the texts, as in ``causal_lm``; -100 is ignored in the loss. Shape (B,
    C, S). ``mc_token_ids`` are the positions that the logits of the choices are computed from; None
    means the last token that is not padding. Shape (B, C). ``mc_labels`` are the indices of the
    right choices. Shape (B,).

    Raises:
        UserError: an argument has a wrong shape, type or value, or ``mc_labels`` are given and the
            configuration does not project to one logit.
    """
    batch, choices, length = check_choices(input_ids, inputs_embeds)[:3]
    if mc_token_ids is not None:
        _check_token_positions(mc_token_ids, (batch, choices), length)
    encoded: BertModelOutput = self.body(
        flat_choices(input_ids),
        flat_choices(attention_mask),
        flat_choices(token_type_ids),
        position_ids=flat_choices(position_ids),
        inputs_embeds=flat_choices(inputs_embeds),
        head_mask=head_mask,
        past_key_values=past_key_values,
        use_cache=keeps_cache(self, use_cache, labels),
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    if labels is not None:
        labels = F.pad(labels.flatten(0, 1)[:, 1:], (0, 1), value=losses.IGNORED)  # (B * C, S)
    language = language_logits(self, encoded, labels, None)
    mask = flat_choices(attention_mask)
    mask = None if mask is None else mask[:, -length:]
    positions = None if mc_token_ids is None else mc_token_ids.flatten()
    mc_logits = self.head.choice(encoded.last_hidden_state, mask, positions)  # (B * C, 1 or D)
    mc_logits = mc_logits.view(batch, choices, -1)
    mc_logits = mc_logits.squeeze(-1) if mc_logits.shape[-1] == 1 else mc_logits
    mc_loss = None
    if mc_labels is not None:
        if mc_logits.ndim != 2:
            raise UserError(
                "mc_labels are given, but the configuration has no score of a choice; set "
                "summary_use_proj and summary_proj_to_labels"
            )
        mc_loss = mean(class_loss(mc_logits, mc_labels))
    return GPT2DoubleHeadsModelOutput(
        loss=language.loss,
        mc_loss=mc_loss,
        logits=language.logits.view(batch, choices, length, -1),
        mc_logits=mc_logits,
        past_key_values=encoded.past_key_values,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def _check_token_positions(tokens: Tensor, shape: tuple[int, int], length: int) -> None:
    if tokens.shape != shape:
        raise UserError(f"mc_token_ids has shape {tuple(tokens.shape)}; it must be {shape}")
    if tokens.device.type == "cpu" and tokens.numel():
        low, high = (int(value) for value in tokens.aminmax())
        if low < 0 or high >= length:
            wrong = low if low < 0 else high
            raise UserError(f"mc_token_ids holds {wrong}; the texts have tokens 0 to {length - 1}")
