"""The body that families of encoders share: embeddings, a stack of blocks, perhaps a pooler.

What is different in a family its configuration says in numbers; see ``encoder_config.py``. The
attributes are named so that a state dict has the names of the reference's BERT.

Shapes: B batch, S length of the input, T length with what is cached, E length of the encoder's
output, H heads, L blocks, each counted once, D model width, W width of the embeddings: D, but for
some families.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor, nn

from heedful.layers.block import Block, BlockOptions
from heedful.layers.blocksparse import BlockSparse
from heedful.layers.cache import Cache
from heedful.layers.convolution import Convolution
from heedful.layers.disentangled import Disentangled, Distances, Terms
from heedful.layers.embeddings import Embeddings, Widening
from heedful.layers.feedforward import ACTIVATIONS
from heedful.layers.linear import Linear
from heedful.layers.multihead import BIASES
from heedful.layers.packing import Packing
from heedful.layers.positions import POSITIONS, BucketedPositions, Positions
from heedful.layers.stack import Order, Stack
from heedful.models import inputs
from heedful.models.body import Body
from heedful.models.configs import remaining
from heedful.models.encoder_config import BlocksConfig, EncoderConfig, usable_positions
from heedful.models.heads import LanguageHead, Transform
from heedful.models.outputs import BertModelOutput
from heedful.models.pretrained import initialise


class Pooler(nn.Module):
    """The first token through a dense layer and an activation.

    Args:
        width: D.
        out: width of what comes out; None for D.
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
    """What a family does otherwise than BERT, where its configuration leaves no choice."""

    bias: BucketedPositions | None = None
    """What all blocks know of positions, if they know it from one table."""
    order: Order | None = None
    """In which order shared blocks are computed; None computes each once."""
    score_factors: Sequence[float] | None = None
    """What the scores of each block are multiplied by; None for 1."""
    scaled: bool = True
    """See ``RelativePositions``."""
    norm_before: bool = False
    """Whether blocks normalise what they read, and then what comes out of the last one, rather than
    what comes out of the embeddings and of each part."""
    norm_last: bool = True
    """Whether such a stack normalises what comes out of its last block; else its body does."""
    attention_biases: frozenset[str] = BIASES
    """Which linear layers of attention have biases; some of ``multihead.BIASES``."""
    activation_dropout: float = 0.0
    """Dropout inside the feed-forward half."""
    positions: Callable[[int], Positions | None] | None = None
    """Makes what a block of so many heads knows of positions, if not by one of ``POSITIONS``."""
    num_tasks: int = 0
    """Number of task types; 0 if there are none."""
    word_types: bool = False
    """Whether token types are words."""
    widen: bool = False
    """Whether a linear layer stands after the embeddings even where they are as wide as the
    model."""
    widen_first: bool = False
    """Whether that layer stands before their normalisation."""
    embedding_dropout: float | None = None
    """Of the embeddings; None takes ``hidden_dropout_prob``."""
    has_positions: bool = True
    """Whether the embeddings have a table of positions."""
    add_positions: bool = True
    """Whether these are added to words."""
    asks_with_positions: bool = False
    """Whether the last block asks with positions, twice; see ``Stack.forward``."""
    distances: Distances | None = None
    """The vectors of distances that all blocks share, if they do."""
    terms: Terms | None = None
    """What distances add to scores, if they do."""
    talking: bool = False
    """Whether attention heads mix their scores and weights."""
    convolution: Convolution | None = None
    """What is added to what comes out of the first block, if anything is."""
    learns_padding: bool = False
    """Whether the vector of padding is learnt as any other."""
    word_scale: float = 1.0
    """What the vectors of words are multiplied by."""
    sparse: BlockSparse | None = None
    """How the first block reads long texts, if not every token by every token; the others draw
    otherwise."""


_BERT = Variant()


class Encoder(Body):
    """An encoder without a head, or a decoder of the same blocks.

    Args:
        config: its sizes and options.
        add_pooling_layer: whether it has a pooler.
        variant: what its family does otherwise than BERT.
    """

    leaves_out_padding: bool = False
    """Whether it leaves padding out of answers, too, where a kernel lets it: the states of padding
    are 0 then, as they are in training."""

    embeddings: Embeddings
    packs_for = "first"

    def __init__(
        self, config: EncoderConfig, add_pooling_layer: bool = True, variant: Variant = _BERT
    ) -> None:
        super().__init__()
        self.config = config
        dropout = variant.embedding_dropout
        widen = variant.widen or config.embedding_width != config.hidden_size
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
            widening=Widening(config.hidden_size, variant.widen_first) if widen else None,
            word_scale=variant.word_scale,
            pad_id=None if variant.learns_padding else config.pad_token_id,
            eps=None if variant.norm_before else config.layer_norm_eps,
            dropout=config.hidden_dropout_prob if dropout is None else dropout,
            add_positions=variant.add_positions and config.position_embedding_type == "absolute",
        )
        self.asks_with_positions = variant.asks_with_positions
        self.num_types = config.vocab_size if variant.word_types else config.type_vocab_size
        self.num_tasks = variant.num_tasks
        self.sparse = variant.sparse
        self.encoder = stack(config, variant)
        self.pooler = Pooler(config.hidden_size) if add_pooling_layer else None
        initialise(self, config.initializer_range)

    def without_padding(self) -> Self:
        """Return the same that `leaves_out_padding`; all parts are shared."""
        twin = copy.copy(self)
        twin.leaves_out_padding = True
        return twin

    @property
    def max_positions(self) -> int:
        """The most tokens that it takes at once."""
        return usable_positions(self.config)

    @property
    def first_position(self) -> int:
        """Where the first token of a text stands; see ``default_positions``."""
        padding = self.config.padding_position
        return 0 if padding is None else padding + 1

    def why_not_compiled(self) -> str | None:
        """Return why it has no compiled form; None if it has one."""
        if self.config.position_embedding_type != "absolute":
            return "relative positions have no compiled form"
        return None

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the pooler, and what lets a decoder attend to an encoder: both may start fresh."""
        fresh = super().head_parameters()
        for block in self.encoder.distinct:
            if self.config.add_cross_attention:
                fresh += block.crossattention.parameters()
        return fresh

    def default_positions(self, tokens: Tensor, start: int) -> Tensor | None:
        """Return the positions of ids, shape (B, S), or of vectors, shape (1, S).

        Where padding has a position of its own, the first token stands at the one after that, and
        ids that are padding do not count. Elsewhere None stands for counting from ``start``.

        Args:
            tokens: ids, shape (B, S), or vectors, shape (B, S, W).
            start: how many tokens are cached before them.
        """
        padding: int | None = self.config.padding_position
        if padding is None:
            return None
        if tokens.ndim == 3:
            numbers = torch.arange(start, start + tokens.shape[1], device=tokens.device)[None]
            return padding + 1 + numbers
        real = tokens.ne(padding).long()
        return padding + real * (start + real.cumsum(1))

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
        past_key_values: Cache | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        output_kernels: bool = False,
        only_first: bool = False,
    ) -> BertModelOutput:
        """Encode a batch.

        Args:
            input_ids: token ids. Shape (B, S).
            attention_mask: 1 or True where a token may be attended to: one row a sequence, shape
                (B, T), or one row a query, shape (B, S, T). None where all may be. A decoder hides
                what comes after a token besides, except where there is one row a query: that is
                all there is, as in the reference.
            token_type_ids: shape (B, S) or (1, S); all 0 if None. A family without token types
                does not read them: tokenizers of others may give them.
            task_type_ids: the same, for a model that has them.
            position_ids: shape (B, S) or (1, S); ``default_positions`` if None. Relative positions
                do not read it: they count tokens.
            inputs_embeds: word vectors instead of ``input_ids``. Shape (B, S, W).
            head_mask: what each head's output is multiplied by, in cross-attention, too; heads
                that were pruned count. Shape (H,) or (L, H).
            encoder_hidden_states: what cross-attention attends to; not read where it is cached.
                Shape (B, E, D).
            encoder_attention_mask: like ``attention_mask``. Shape (B, E) or (B, S, E).
            past_key_values: what an earlier call returned: this one goes on from there.
            use_cache: whether to return ``past_key_values``.
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return what comes out of the embeddings and blocks.
            output_kernels: whether to say which kernel each attention ran on.
            only_first: whether the first token's last state is all that is wanted: the last block
                then computes nothing else, and ``last_hidden_state`` has shape (B, 1, D).

        Raises:
            UserError: a shape, a type, or (where looking costs nothing) a value is wrong, or the
                model is not a decoder and was given what only a decoder takes.
        """
        config = self.config
        start = 0 if past_key_values is None else past_key_values.length
        tokens = inputs.check_tokens(input_ids, inputs_embeds, start, self.max_positions, config)
        if self.num_types:
            inputs.check_rows("token_type_ids", token_type_ids, tokens, self.num_types)
        inputs.check_rows("task_type_ids", task_type_ids, tokens, self.num_tasks)
        inputs.check_rows("position_ids", position_ids, tokens, config.max_position_embeddings)
        if position_ids is None:
            position_ids = self.default_positions(tokens, start)
        context = inputs.context(
            config,
            tokens,
            attention_mask=attention_mask,
            past=past_key_values,
            encoded=encoder_hidden_states,
            encoded_mask=encoder_attention_mask,
            need_cache=use_cache,
            by_text=self.sparse is not None,
        )
        head_mask = inputs.check_head_mask("head_mask", head_mask, self.head_masks())
        alone = encoder_hidden_states is None and past_key_values is None and not use_cache
        plain = alone and not (output_attentions or output_hidden_states)
        packing = self._packing(attention_mask, tokens, only_first=only_first) if plain else None
        hidden = self.embeddings(
            tokens, token_type_ids, position_ids, task_type_ids, start, packing
        )
        if self.encoder.layer_norm is not None:  # the embeddings have none
            hidden = hidden.to(self.encoder.layer_norm.weight.dtype)
        encoded = self.encoder(
            hidden,
            replace(context, packing=packing),
            head_mask=head_mask,
            cross_head_mask=head_mask,
            past=None if past_key_values is None else past_key_values.blocks,
            weights_of=range(len(self.encoder.blocks)) if output_attentions else (),
            need_states=output_hidden_states,
            recompute=self.gradient_checkpointing and self.training,
            only_first=only_first,
            asking=self._asking(tokens, position_ids),
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

    def _packing(
        self, attention_mask: Tensor | None, tokens: Tensor, *, only_first: bool
    ) -> Packing | None:
        """Tell how padding is left out, if it is: outside training where nobody sees it."""
        if not (self.training or only_first or self.leaves_out_padding):
            return None
        # To the kernel a token that stands alone is the last of its text.
        attends = self.encoder.attends_to_texts and not (only_first and self.config.is_decoder)
        if not (attends or (self.training and only_first)):
            return None
        if attention_mask is not None and attention_mask.ndim == 3:
            apart = not only_first
            return inputs.packing_apart(attention_mask, tokens, self.config) if apart else None
        return inputs.packing_of(attention_mask, tokens, attends=attends, only_first=only_first)

    def _asking(self, tokens: Tensor, position_ids: Tensor | None) -> Tensor | None:
        """Return what the last block asks with, if that is more than what it reads."""
        if not self.asks_with_positions:
            return None
        return self.embeddings.positions(tokens, position_ids)


def _padded(hidden: Tensor, packing: Packing | None) -> Tensor:
    """Return shape (B, S, D) for what may be packed."""
    return hidden if packing is None else packing.restore(hidden)


def stack(config: BlocksConfig, variant: Variant) -> Stack:
    """Return the blocks."""
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
        norm_before=variant.norm_before,
        attention_biases=variant.attention_biases,
        activation_dropout=variant.activation_dropout,
        chunk=config.chunk_size_feed_forward,
        talking=variant.talking,
    )
    kind = POSITIONS[config.position_embedding_type]
    most = config.max_position_embeddings
    positions = variant.positions or (lambda heads: kind(most, head_width, scaled=variant.scaled))

    def block(number: int, factor: float) -> Block:
        kept = remaining(heads, config.pruned_heads, number)
        return Block(
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
    if variant.norm_before and variant.norm_last:
        norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
    return Stack(
        (block(number, factor) for number, factor in enumerate(factors)),
        norm,
        bias=variant.bias,
        order=variant.order,
        distances=variant.distances,
        convolution=variant.convolution,
    )


def language_head(config: EncoderConfig, activation: str | None = None) -> LanguageHead:
    """Make what scores the pieces of the vocabulary; None takes the body's activation."""
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
