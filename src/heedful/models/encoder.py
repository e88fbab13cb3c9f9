"""The body that encoder families share: embeddings, a stack of blocks and an optional pooler.

A family's configuration gives its sizes; see ``encoder_config.py``. State dict keys match those of
the reference's BERT.

Shapes: B batch, S input length, T key length (cached and new tokens), E length of the encoder's
output, H heads, L distinct blocks, D model width, W embedding width (equal to D except in some
families).
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor, nn

from heedful.layers import masks
from heedful.layers.blocksparse import BlockSparse
from heedful.layers.cache import Cache
from heedful.layers.convolution import Convolution
from heedful.layers.disentangled import Disentangled, DisentangledTerms, Distances
from heedful.layers.embeddings import Embeddings, Widening
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.linear import Linear
from heedful.layers.multihead import BIASES
from heedful.layers.packing import Packing
from heedful.layers.positions import POSITIONS, BucketedPositions, Positions
from heedful.layers.residual import BlockOptions
from heedful.layers.stack import Order, Stack
from heedful.models import inputs
from heedful.models.body import Body
from heedful.models.by_hand import CallableBlock, CallableStack
from heedful.models.configs import remaining
from heedful.models.encoder_config import BlocksConfig, EncoderConfig, usable_positions
from heedful.models.language_heads import LanguageHead, Transform
from heedful.models.observed import has_user_hooks, pools_first
from heedful.models.outputs import BertModelOutput
from heedful.models.pretrained import initialise


class Pooler(nn.Module):
    """A dense layer and an activation, applied to the first token.

    Args:
        width: D.
        out: output width; None for D.
        activation: a name in ``feedforward.ACTIVATIONS``.
    """

    def __init__(self, width: int, out: int | None = None, activation: str = "tanh") -> None:
        super().__init__()
        self.dense = Linear(width, out or width)
        self.activation = ACTIVATIONS[activation]

    def forward(self, hidden: Tensor) -> Tensor:
        """Return shape (B, D), or (B, out), for shape (B, S, D)."""
        return self.activation(self.dense(hidden[:, 0]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """How a family's architecture differs from BERT's, beyond its configuration."""

    bias: BucketedPositions | None = None
    """Position bias that all blocks share, if any."""
    order: Order | None = None
    """Order in which shared blocks run; None runs each block once."""
    score_factors: Sequence[float] | None = None
    """Factor on the attention scores of each block; None for 1."""
    scale_position_scores: bool = True
    """See ``RelativePositions``."""
    is_pre_norm: bool = False
    """Whether the model is pre-norm: blocks normalise their input and the stack its output. A
    post-norm model normalises the embeddings and each sublayer's output."""
    norm_last: bool = True
    """Whether a pre-norm stack normalises its own output; if not, the body does."""
    attention_biases: frozenset[str] = BIASES
    """Linear layers of attention that have a bias; a subset of ``multihead.BIASES``."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward layer."""
    positions: Callable[[int], Positions | None] | None = None
    """Makes a block's relative positions, given its number of heads; None uses ``POSITIONS``."""
    num_tasks: int = 0
    """Number of task types; 0 if there are none."""
    word_types: bool = False
    """Whether token types are looked up in the word embeddings."""
    project_embeddings: bool = False
    """Whether a linear layer follows the embeddings even if they are as wide as the model."""
    project_before_norm: bool = False
    """Whether that layer comes before the layer normalisation of the embeddings."""
    embedding_dropout: float | None = None
    """Dropout of the embeddings; None takes ``hidden_dropout_prob``."""
    has_positions: bool = True
    """Whether the model has a table of position embeddings."""
    add_positions: bool = True
    """Whether position embeddings are added to word embeddings."""
    queries_add_positions: bool = False
    """Whether the last block adds positions to its queries and runs twice; see
    ``Stack.forward``."""
    distances: Distances | None = None
    """Distance embeddings that all blocks share, if any."""
    terms: DisentangledTerms | None = None
    """Terms that relative distances add to the attention scores, if any."""
    talking_heads: bool = False
    """Whether heads mix their attention scores and weights (talking heads)."""
    convolution: Convolution | None = None
    """Convolution whose output is added to the first block's output, if any."""
    train_padding_vector: bool = False
    """Whether the padding token's vector is trained like any other."""
    word_scale: float = 1.0
    """Factor on the word embeddings."""
    sparse: BlockSparse | None = None
    """Sparse attention of the first block to long texts; None for full attention. Other blocks
    draw other random blocks."""


_BERT = Variant()


class Encoder(Body):
    """An encoder without a head, or a decoder built from the same blocks.

    Args:
        config: sizes and options.
        add_pooling_layer: whether the model has a pooler.
        variant: how the family differs from BERT.
    """

    packs_at_inference: bool = False
    """Whether to pack sequences at inference, too, if a kernel supports it. Hidden states of
    padding are then 0, as in training."""

    embeddings: Embeddings
    encoder: CallableStack
    packing_token = "first"

    def __init__(
        self, config: EncoderConfig, add_pooling_layer: bool = True, variant: Variant = _BERT
    ) -> None:
        super().__init__()
        self.config = config
        dropout = variant.embedding_dropout
        widen = variant.project_embeddings or config.embedding_width != config.hidden_size
        self.embeddings = Embeddings(
            vocab_size=config.vocab_size,
            num_types=config.type_vocab_size,
            num_tasks=variant.num_tasks,
            word_types=variant.word_types,
            position_embeddings=nn.Embedding(
                config.max_position_embeddings, config.embedding_width, config.padding_position
            )
            if variant.has_positions
            else None,
            width=config.embedding_width,
            widening=Widening(config.hidden_size, variant.project_before_norm) if widen else None,
            word_scale=variant.word_scale,
            pad_id=None if variant.train_padding_vector else config.pad_token_id,
            eps=None if variant.is_pre_norm else config.layer_norm_eps,
            dropout=config.hidden_dropout_prob if dropout is None else dropout,
            add_positions=variant.add_positions and config.position_embedding_type == "absolute",
        )
        self.queries_add_positions = variant.queries_add_positions
        self.num_tasks = variant.num_tasks
        self.sparse = variant.sparse
        self.encoder = make_stack(config, variant)
        self.encoder.set_causal(config.is_decoder)
        self.pooler = Pooler(config.hidden_size) if add_pooling_layer else None
        initialise(self, config.initializer_range)

    def packed(self) -> Self:
        """Return a copy with `packs_at_inference` set; it shares all submodules."""
        twin = copy.copy(self)
        twin.packs_at_inference = True
        return twin

    @property
    def max_positions(self) -> int:
        """Maximum sequence length in tokens."""
        return usable_positions(self.config)

    @property
    def first_position(self) -> int:
        """Position of the first token of a sequence; see ``Embeddings.default_positions``."""
        padding = self.config.padding_position
        return 0 if padding is None else padding + 1

    def why_not_compiled(self) -> str | None:
        """Return why this body cannot be compiled; None if it can be."""
        if self.config.position_embedding_type != "absolute":
            return "relative positions cannot be compiled"
        return None

    @property
    def num_types(self) -> int:
        """Number of token types; 0 if the model has none."""
        config = self.config
        types: int = (
            config.vocab_size
            if getattr(self.embeddings, "word_types", False)
            else config.type_vocab_size
        )
        return types

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the weights of the pooler and of cross-attention; both may start fresh."""
        fresh = super().head_parameters()
        for block in self.encoder.distinct:
            if self.config.add_cross_attention:
                fresh += block.crossattention.parameters()
        return fresh

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        task_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Cache | Sequence[Sequence[Tensor]] | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        output_kernels: bool = False,
        only_first: bool = False,
    ) -> BertModelOutput:
        """Encode a batch.

        Args:
            input_ids: token ids. Shape (B, S).
            attention_mask: 1 or True where a token may be attended to. Shape (B, T), (1, T) or
                (B, 1, T), one row per sequence, or (B, S, T), one row per query. None masks
                nothing. A decoder adds the causal mask, but not to a mask of shape (B, S, T), as in
                the reference.
            token_type_ids: shape (B, S) or (1, S); all 0 if None. A family without token types
                ignores them, since another family's tokenizer may supply them.
            task_type_ids: task types, for a model that has them. Shape (B, S) or (1, S).
            position_ids: shape (B, S) or (1, S); see ``Embeddings.positions`` for None. Relative
                positions ignore them and count tokens.
            inputs_embeds: word vectors instead of ``input_ids``. Shape (B, S, W).
            head_mask: factor on each head's output, including in cross-attention. Pruned heads
                have an entry. Shape (H,) or (L, H).
            encoder_hidden_states: input of cross-attention; ignored if its keys and values are
                cached. Shape (B, E, D).
            encoder_attention_mask: like ``attention_mask``. Shape (B, E) or (B, S, E).
            past_key_values: KV cache returned by an earlier call, which this call continues; or
                the keys and values of each block, as in ``cache.to_legacy_cache()``.
            use_cache: whether to return ``past_key_values``.
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return the outputs of the embeddings and blocks.
            output_kernels: whether to return the name of the kernel of each attention.
            only_first: whether to compute only the first token in the last block.
                ``last_hidden_state`` then has shape (B, 1, D). It has no effect if a user's pooler
                or hooks may read other tokens.

        Raises:
            UserError: a shape, a dtype or a value is wrong, or an argument is only for decoders
                and the model is none. Values are checked only on the CPU.
        """
        config = self.config
        start = 0 if (past := inputs.as_cache(past_key_values)) is None else past.length
        tokens = inputs.check_tokens(input_ids, inputs_embeds, start, self.max_positions, config)
        if self.num_types:
            inputs.check_rows("token_type_ids", token_type_ids, tokens, self.num_types)
        inputs.check_rows("task_type_ids", task_type_ids, tokens, self.num_tasks)
        inputs.check_rows("position_ids", position_ids, tokens, config.max_position_embeddings)
        context = inputs.context(
            config,
            tokens,
            attention_mask=attention_mask,
            past=past,
            encoded=encoder_hidden_states,
            encoded_mask=encoder_attention_mask,
            need_cache=use_cache,
            need_texts=self.sparse is not None,
        )
        head_mask = inputs.check_head_mask("head_mask", head_mask, self.head_masks())
        self_only = encoder_hidden_states is None and past is None and not use_cache
        only_first, may_pack = self._shortcuts(only_first)
        can_pack = self_only and may_pack and not (output_attentions or output_hidden_states)
        packing = self._packing(attention_mask, tokens, only_first=only_first) if can_pack else None
        hidden = self.embeddings(
            tokens, token_type_ids, position_ids, task_type_ids, start, packing
        )
        if self.encoder.layer_norm is not None:  # pre-norm embeddings have no normalisation
            hidden = hidden.to(self.encoder.layer_norm.weight.dtype)
        encoded = self.encoder(
            hidden,
            replace(context, packing=packing),
            head_mask=head_mask,
            cross_head_mask=head_mask,
            past=None if past is None else past.blocks,
            weights_of=range(len(self.encoder.blocks)) if output_attentions else (),
            need_states=output_hidden_states,
            recompute=self.gradient_checkpointing and self.training,
            only_first=only_first,
            query_offset=self._query_offset(tokens, position_ids),
        )
        last = encoded.hidden if only_first else _padded(encoded.hidden, packing)
        return BertModelOutput(
            last_hidden_state=last,
            pooler_output=None if self.pooler is None else self.pooler(last),
            past_key_values=encoded.cache,
            hidden_states=encoded.states if output_hidden_states else None,
            attentions=encoded.attentions,
            cross_attentions=encoded.cross_attentions,
            kernels=encoded.kernels if output_kernels else None,
        )

    def _shortcuts(self, only_first: bool) -> tuple[bool, bool]:
        """Return whether to compute only the first token, and whether padding may be left out."""
        may_pack = self.training or only_first or self.packs_at_inference
        # A compiled stack has looked for hooks itself.
        may_pack = may_pack and not (isinstance(self.encoder, Stack) and has_user_hooks(self))
        return only_first and may_pack and pools_first(self.pooler, Pooler), may_pack

    def _packing(
        self, attention_mask: Tensor | None, tokens: Tensor, *, only_first: bool
    ) -> Packing | None:
        """Return how to pack the sequences; None to keep padding.

        Inference packs only if the caller cannot see the states of padding, or allows it.
        """
        if not (self.training or only_first or self.packs_at_inference):
            return None
        # The kernel treats a single query as the last token of its sequence.
        attends = self.encoder.supports_packing and not (only_first and self.config.is_decoder)
        if not (attends or (self.training and only_first)):
            return None
        attention_mask = masks.by_sequence(attention_mask, tokens.shape[0])
        if attention_mask is not None and attention_mask.ndim == 3:
            all_tokens = not only_first
            return (
                inputs.packing_of_separate_texts(attention_mask, tokens, self.config)
                if all_tokens
                else None
            )
        return inputs.packing_of(attention_mask, tokens, attends=attends, only_first=only_first)

    def _query_offset(self, tokens: Tensor, position_ids: Tensor | None) -> Tensor | None:
        """Return the positions that the last block adds to its queries; None if it adds none."""
        if not self.queries_add_positions:
            return None
        return self.embeddings.positions(tokens, position_ids)


def _padded(hidden: Tensor, packing: Packing | None) -> Tensor:
    """Return hidden states of shape (B, S, D), unpacking them if they are packed."""
    return hidden if packing is None else packing.restore(hidden)


def make_stack(config: BlocksConfig, variant: Variant) -> CallableStack:
    """Make the stack of blocks."""
    heads = config.num_attention_heads
    head_width = config.hidden_size // heads
    options = BlockOptions(
        width=config.hidden_size,
        head_width=head_width,
        inner_width=config.intermediate_size,
        activation=config.hidden_act,
        dropout=config.hidden_dropout_prob,
        attention_output_dropout=config.attention_output_dropout,
        attention_dropout=config.attention_probs_dropout_prob,
        eps=config.layer_norm_eps,
        is_pre_norm=variant.is_pre_norm,
        attention_biases=variant.attention_biases,
        activation_dropout=variant.activation_dropout,
        chunk_size=config.chunk_size_feed_forward,
        talking_heads=variant.talking_heads,
    )
    kind = POSITIONS[config.position_embedding_type]
    limit = config.max_position_embeddings
    positions = variant.positions or (
        lambda heads: kind(limit, head_width, scaled=variant.scale_position_scores)
    )

    def block(number: int, factor: float) -> CallableBlock:
        kept = remaining(heads, config.pruned_heads, number)
        return CallableBlock(
            options,
            heads=kept,
            cross_heads=range(heads) if config.add_cross_attention else None,
            positions=positions(len(kept)),
            score_factor=factor,
            sparse=None if variant.sparse is None else replace(variant.sparse, number=number),
            disentangled=None
            if variant.terms is None
            else Disentangled(variant.terms, config.hidden_size, len(kept), head_width),
        )

    factors = variant.score_factors or [1.0] * config.num_blocks
    norm = None
    if variant.is_pre_norm and variant.norm_last:
        norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
    return CallableStack(
        (block(number, factor) for number, factor in enumerate(factors)),
        norm,
        bias=variant.bias,
        order=variant.order,
        distances=variant.distances,
        convolution=variant.convolution,
    )


def language_head(config: EncoderConfig, activation: str | None = None) -> LanguageHead:
    """Make a language model head; None takes the body's activation."""
    return LanguageHead(
        Transform(
            config.hidden_size,
            config.embedding_width,
            activation or config.hidden_act,
            config.layer_norm_eps,
        ),
        piece_width=config.embedding_width,
        vocab_size=config.vocab_size,
        tied=config.tie_word_embeddings,
    )
