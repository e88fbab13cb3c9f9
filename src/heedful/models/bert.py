"""BERT (Devlin et al. 2019): embeddings, a stack of blocks, a pooler.

The attributes are named so that a state dict has the reference's names.

Shapes: B batch, S length, D model width.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from heedful.errors import UserError
from heedful.layers.blocks import Block
from heedful.layers.cache import Cache
from heedful.layers.embeddings import Embeddings
from heedful.layers.masks import from_attention_mask
from heedful.models import pretrained
from heedful.models.config import BertConfig
from heedful.models.outputs import BertModelOutput


class Encoder(nn.Module):
    """The stack of blocks."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(
            Block(
                width=config.hidden_size,
                num_heads=config.num_attention_heads,
                inner_width=config.intermediate_size,
                activation=config.hidden_act,
                eps=config.layer_norm_eps,
                attention_dropout=config.attention_probs_dropout_prob,
                dropout=config.hidden_dropout_prob,
            )
            for _ in range(config.num_hidden_layers)
        )

    def forward(
        self,
        hidden: Tensor,
        mask: Tensor | None,
        *,
        need_weights: bool,
        recompute: bool,
        only_first: bool,
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
        """Return what goes into the first block and comes out of each, and each one's weights.

        Args:
            hidden: shape (B, S, D).
            mask: bool, broadcastable to (B, H, S, S).
            need_weights: whether to return the attention weights.
            recompute: whether to keep only each block's input for the backward pass.
            only_first: whether the last block computes the first token alone.
        """
        states, weights = [hidden], []
        for number, block in enumerate(self.layer, start=1):
            first = only_first and number == len(self.layer)
            if recompute:
                hidden, kept = checkpoint(
                    block, hidden, mask, need_weights, first, use_reentrant=False
                )
            else:
                hidden, kept = block(hidden, mask, need_weights, first)
            states.append(hidden)
            weights.append(kept)
        return tuple(states), tuple(weights)


class Pooler(nn.Module):
    """The first token through a dense layer and tanh."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (B, D) for shape (B, S, D)."""
        return torch.tanh(self.dense(hidden[:, 0]))


class BertModel(nn.Module):
    """BERT without a head.

    Args:
        config: its sizes and options.
        add_pooling_layer: whether it has a pooler.

    Attributes:
        gradient_checkpointing: whether training keeps only each block's input and computes the
            rest again in the backward pass: less memory, about a third more time. False at first.
    """

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True) -> None:
        super().__init__()
        self.config = config
        self.gradient_checkpointing = False
        self.embeddings = Embeddings(
            vocab_size=config.vocab_size,
            num_types=config.type_vocab_size,
            num_positions=config.max_position_embeddings,
            width=config.hidden_size,
            pad_id=config.pad_token_id,
            eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )
        self.encoder = Encoder(config)
        self.pooler = Pooler(config.hidden_size) if add_pooling_layer else None
        pretrained.initialise(self, config.initializer_range)

    from_pretrained: "ClassVar[classmethod[Any, ..., BertModel]]" = classmethod(
        pretrained.from_pretrained
    )
    save_pretrained = pretrained.save_pretrained

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        output_kernels: bool = False,
        only_first: bool = False,
    ) -> BertModelOutput:
        """Encode a batch.

        Args:
            input_ids: pieces of the vocabulary. Shape (B, S).
            attention_mask: 1 or True where a token may be attended to: one row a sequence, shape
                (B, S), or one row a query, shape (B, S, S). None where all may be.
            token_type_ids: shape (B, S) or (1, S); all 0 if None.
            position_ids: shape (B, S) or (1, S); 0 to S - 1 if None.
            inputs_embeds: word vectors in the place of ``input_ids``. Shape (B, S, D).
            head_mask: what each head's output is multiplied by. Shape (H,) or (L, H).
            encoder_hidden_states: what a decoder's cross-attention attends to. Shape (B, E, D).
            encoder_attention_mask: like ``attention_mask``, shape (B, E) or (B, S, E).
            past_key_values: what an earlier call returned: ``input_ids`` go on from there.
            use_cache: whether to return ``past_key_values``.
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return what comes out of the embeddings and blocks.
            output_kernels: whether to say which attention kernels ran.
            only_first: whether the first token's last state is all that is wanted: the last block
                then computes nothing else, and ``last_hidden_state`` has shape (B, 1, D).

        Raises:
            UserError: a shape, a type, or (where looking costs nothing) a value is wrong.
        """
        later = (head_mask, encoder_hidden_states, encoder_attention_mask, past_key_values)
        if any(value is not None for value in later) or use_cache or output_kernels:
            raise UserError("head masks, decoders and kernels are not supported yet")
        config = self.config
        words = _check_words(input_ids, inputs_embeds, config)
        batch, length = words.shape[:2]
        for name, ids, limit in (
            ("token_type_ids", token_type_ids, config.type_vocab_size),
            ("position_ids", position_ids, config.max_position_embeddings),
        ):
            if ids is not None:
                if ids.shape not in ((batch, length), (1, length)):
                    given = tuple(ids.shape)
                    raise UserError(f"{name} has shape {given}; it must be {(batch, length)}")
                _check_ids(name, ids, limit)
        mask = None
        if attention_mask is not None:
            mask = from_attention_mask(attention_mask, batch=batch, queries=length, keys=length)

        states, weights = self.encoder(
            self.embeddings(words, token_type_ids, position_ids),
            mask,
            need_weights=output_attentions,
            recompute=self.gradient_checkpointing and self.training,
            only_first=only_first,
        )
        return BertModelOutput(
            last_hidden_state=states[-1],
            pooler_output=None if self.pooler is None else self.pooler(states[-1]),
            hidden_states=states if output_hidden_states else None,
            attentions=weights if output_attentions else None,
        )


def _check_words(ids: Tensor | None, vectors: Tensor | None, config: BertConfig) -> Tensor:
    if ids is not None and vectors is None:
        words, shape = ids, "(batch, length)"
        right = ids.ndim == 2
        if right:
            _check_ids("input_ids", ids, config.vocab_size)
    elif vectors is not None and ids is None:
        words, shape = vectors, f"(batch, length, {config.hidden_size})"
        right = vectors.ndim == 3 and vectors.shape[2] == config.hidden_size
    else:
        raise UserError("give either input_ids or inputs_embeds, one and not both")
    if not right:
        name = "input_ids" if vectors is None else "inputs_embeds"
        raise UserError(f"{name} has shape {tuple(words.shape)}; it must be {shape}")
    if not 1 <= words.shape[1] <= config.max_position_embeddings:
        raise UserError(
            f"the sequence has {words.shape[1]} tokens; "
            f"the model takes 1 to {config.max_position_embeddings}"
        )
    return words


def _check_ids(name: str, ids: Tensor, limit: int) -> None:
    if ids.dtype not in (torch.int64, torch.int32):
        raise UserError(f"{name} has type {ids.dtype}; it must be torch.int64 or torch.int32")
    # Elsewhere than on a CPU the values could be seen only by waiting for the device.
    if ids.device.type == "cpu" and not torch.compiler.is_compiling() and ids.numel():
        low, high = (int(value) for value in ids.aminmax())
        if low < 0 or high >= limit:
            wrong = low if low < 0 else high
            raise UserError(f"{name} holds {wrong}; the model knows 0 to {limit - 1}")
