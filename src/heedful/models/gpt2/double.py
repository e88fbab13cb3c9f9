"""What GPT-2's model of two heads adds: a number for each choice, beside the next words.

Shapes: B batch, C choices, S length, D model width, V vocabulary, N pieces that are scored.
"""

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
from heedful.models.forwards import mean, score_pieces
from heedful.models.gpt2.config import GPT2Config
from heedful.models.heads import LanguageHead, last_places
from heedful.models.labels import class_loss
from heedful.models.outputs import BertModelOutput, Output
from heedful.models.with_head import WithHead


@dataclass(frozen=True, kw_only=True)
class GPT2DoubleHeadsModelOutput(Output):
    """What ``GPT2DoubleHeadsModel`` returns."""

    loss: Tensor | None = None
    """The mean over the labels of next words, if there are any. Shape ()."""
    mc_loss: Tensor | None = None
    """The mean over the labels of choices, if there are any. Shape ()."""
    logits: Tensor
    """Of what follows every token, shape (B, C, S, V); with labels of the N pieces that have one,
    shape (N, V)."""
    mc_logits: Tensor
    """Of the choices. Shape (B, C); (B, C, D) where the configuration makes no number of them."""
    past_key_values: Cache | None = None
    """What a later call can go on from, if asked for: of B * C sequences."""
    hidden_states: tuple[Tensor, ...] | None = None
    """The embeddings and the output of each block, if asked for. Each of shape (B * C, S, D)."""
    attentions: tuple[Tensor, ...] | None = None
    """The attention weights of each block, if asked for. Each of shape (B * C, H, S, T)."""


class ChoiceSummary(nn.Module):
    """One vector of a text, and what the options ``summary_...`` make of it.

    Args:
        config: has these options.
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
        """Return shape (N, 1), or (N, D) without a projection to one number.

        Args:
            hidden: shape (N, S, D).
            real: not 0 for a token; None if there is no padding. Shape (N, S).
            tokens: where the token stands that counts; None takes the last. Shape (N,).
        """
        vectors = self.dropout(self._vectors(hidden, real, tokens))
        if self.summary is not None:
            vectors = self.summary(vectors)
        return vectors if self.activation is None else self.activation(vectors)

    def _vectors(self, hidden: Tensor, real: Tensor | None, tokens: Tensor | None) -> Tensor:
        if self.kind == "first":
            return hidden[:, 0]
        if self.kind == "mean":
            if real is None:
                return hidden.mean(1)
            weights = real.ne(0).to(hidden.dtype)[..., None]
            return (hidden * weights).sum(1) / weights.sum(1)
        if tokens is None or self.kind == "last":
            last = hidden.shape[1] - 1
            tokens = torch.full((len(hidden),), last, device=hidden.device)
            if real is not None:
                tokens = last_places(real.ne(0))
        return hidden[torch.arange(len(hidden), device=hidden.device), tokens]


class DoubleHead(nn.Module):
    """Both heads.

    Args:
        predictions: says which token comes next.
        choice: says which text is the right one.
    """

    def __init__(self, predictions: LanguageHead, choice: ChoiceSummary) -> None:
        super().__init__()
        self.predictions = predictions
        self.choice = choice


def predict_next_and_choose(
    self: WithHead,
    input_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
    head_mask: Tensor | None = None,
    past_key_values: Cache | None = None,
    use_cache: bool = False,
    mc_token_ids: Tensor | None = None,
    labels: Tensor | None = None,
    mc_labels: Tensor | None = None,
    output_attentions: bool = False,
    output_hidden_states: bool = False,
) -> GPT2DoubleHeadsModelOutput:
    """Score what follows every token of the C choices of each item, and the choices.

    What has shape (B, ...) in the body's ``forward`` has shape (B, C, ...) here. ``labels`` are the
    pieces of the texts themselves, -100 for one that is not scored, shape (B, C, S), as in
    ``predict_next``. ``mc_token_ids`` say which token of each choice its number is read from, shape
    (B, C); the last that is not padding if None. ``mc_labels`` are the number of the right choice.
    Shape (B,).

    Raises:
        UserError: an argument has a wrong shape, type or value, or there are labels of choices and
            the configuration makes no number of them.
    """
    inputs = input_ids if input_ids is not None else inputs_embeds
    if inputs is None or inputs.ndim < 3:
        shape = "nothing" if inputs is None else f"shape {tuple(inputs.shape)}"
        raise UserError(f"choices are given as {shape}; expected (batch, choices, length)")
    items, choices, length = inputs.shape[:3]
    if mc_token_ids is not None:
        _check_tokens(mc_token_ids, (items, choices), length)
    encoded: BertModelOutput = self.body(
        _flat(input_ids),
        _flat(attention_mask),
        _flat(token_type_ids),
        position_ids=_flat(position_ids),
        inputs_embeds=_flat(inputs_embeds),
        head_mask=head_mask,
        past_key_values=past_key_values,
        use_cache=use_cache,
        output_attentions=output_attentions,
        output_hidden_states=output_hidden_states,
    )
    if labels is not None:
        labels = F.pad(labels.flatten(0, 1)[:, 1:], (0, 1), value=losses.IGNORED)  # (B * C, S)
    words = score_pieces(self, encoded, labels, None)
    real = _flat(attention_mask)
    real = None if real is None else real[:, -length:]
    tokens = None if mc_token_ids is None else mc_token_ids.flatten()
    numbers = self.head.choice(encoded.last_hidden_state, real, tokens)  # (B * C, 1 or D)
    numbers = numbers.view(items, choices, -1)
    numbers = numbers.squeeze(-1) if numbers.shape[-1] == 1 else numbers
    mc_loss = None
    if mc_labels is not None:
        if numbers.ndim != 2:
            raise UserError(
                "mc_labels are given, but the configuration makes no number of a choice; set "
                "summary_use_proj and summary_proj_to_labels"
            )
        mc_loss = mean(class_loss(numbers, mc_labels))
    logits = words.logits if labels is not None else words.logits.view(*inputs.shape[:3], -1)
    return GPT2DoubleHeadsModelOutput(
        loss=words.loss,
        mc_loss=mc_loss,
        logits=logits,
        mc_logits=numbers,
        past_key_values=encoded.past_key_values,
        hidden_states=encoded.hidden_states,
        attentions=encoded.attentions,
    )


def _check_tokens(tokens: Tensor, shape: tuple[int, int], length: int) -> None:
    if tokens.shape != shape:
        raise UserError(f"mc_token_ids has shape {tuple(tokens.shape)}; it must be {shape}")
    if tokens.device.type == "cpu" and tokens.numel():
        low, high = (int(value) for value in tokens.aminmax())
        if low < 0 or high >= length:
            wrong = low if low < 0 else high
            raise UserError(f"mc_token_ids holds {wrong}; the texts have tokens 0 to {length - 1}")


def _flat(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.flatten(0, 1)  # (B * C, ...)
