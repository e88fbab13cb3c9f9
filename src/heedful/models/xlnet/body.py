"""XLNet without a head (Yang et al. 2019).

Shapes: B batch, S length of a segment, P predicted tokens, M length of the memory, T = M + S, H
heads, L blocks, D model width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from heedful.layers.dropout import Dropout
from heedful.layers.packing import Packing
from heedful.layers.patches import Vectors
from heedful.layers.relative import SegmentPositions
from heedful.models import inputs
from heedful.models.body import Body
from heedful.models.encoder import Variant, make_stack
from heedful.models.heads import last_positions
from heedful.models.observed import has_user_hooks
from heedful.models.outputs import XLNetModelOutput
from heedful.models.pretrained import initialise
from heedful.models.xlnet import names, streams
from heedful.models.xlnet.config import USUAL_POSITIONS, XLNetConfig


class StreamEmbeddings(nn.Module):
    """Embeddings of both streams.

    Args:
        vocab_size: number of tokens in the vocabulary.
        width: D.
        dropout: dropout probability.
    """

    def __init__(self, vocab_size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, width)
        self.mask_embedding = Vectors(1, width)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, predicted: int, packing: Packing | None = None) -> Tensor:
        """Return shape (B, S + P, D), or (1, tokens, D) if packed.

        Args:
            tokens: token ids, shape (B, S), or word vectors, shape (B, S, D).
            predicted: P. The predicted tokens share one embedding.
            packing: how to pack the sequences; None keeps padding. P must be 0 with packing.
        """
        mask = self.mask_embedding()
        vectors = self.word_embeddings(tokens) if tokens.ndim == 2 else tokens
        vectors = vectors.to(mask.dtype)
        if predicted:
            vectors = torch.cat([vectors, mask.expand(len(tokens), predicted, -1)], 1)
        if packing is not None:
            vectors = packing.pack(vectors)
        dropped: Tensor = self.dropout(vectors)
        return dropped


class XLNetModel(Body):
    """XLNet without a head.

    Args:
        config: sizes and options.
    """

    config: XLNetConfig
    embeddings: StreamEmbeddings
    prefix = "transformer"
    file_names = names.IN_FILES
    packing_token = "last"

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__()
        self.config = config
        width, head_width = config.d_model, config.d_model // config.n_head
        self.embeddings = StreamEmbeddings(config.vocab_size, width, config.dropout)
        variant = Variant(
            positions=lambda heads: SegmentPositions(width, head_width, heads),
            attention_biases=frozenset({"query"}),
            activation_dropout=config.dropout,
        )
        self.encoder = make_stack(config, variant)
        self.dropout = Dropout(config.dropout)
        self.pooler = None
        initialise(self, config.initializer_range)
        for block in self.encoder.blocks:  # this bias is initialised like a weight
            nn.init.normal_(block.attention.self.query.bias, std=config.initializer_range)

    @property
    def default_length(self) -> int:
        """Default sequence length in tokens."""
        return USUAL_POSITIONS

    def from_file_layout(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Merge the head dimensions of a file's weights; see ``names.split``."""
        return names.split(tensors)

    def to_file_layout(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Undo ``from_file_layout``."""
        return names.join(weights, self.config.d_model // self.config.n_head)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        mems: Sequence[Tensor] | None = None,
        perm_mask: Tensor | None = None,
        target_mapping: Tensor | None = None,
        input_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        use_mems: bool = False,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        output_kernels: bool = False,
        only_last: bool = False,
    ) -> XLNetModelOutput:
        """Encode a batch of segments.

        Args:
            input_ids: token ids. Shape (B, S).
            attention_mask: 1 or True for a token, 0 or False for padding. Shape (B, S). The memory
                is never masked.
            token_type_ids: token types, of which only equality matters. Tokens of the memory have
                type 0. Shape (B, S) or (1, S).
            mems: memory of earlier segments, returned by an earlier call. For each block, shape (M,
                B, D).
            perm_mask: 1 where token i must not attend to token j. Shape (B, S, S).
            target_mapping: 1 where prediction p is of token i. The query stream predicts the token
                without seeing it, if ``perm_mask`` hides it. Shape (B, P, S).
            input_mask: inverse of ``attention_mask``, given instead of it.
            inputs_embeds: word vectors instead of ``input_ids``. Shape (B, S, D).
            head_mask: factor on each head's output. Pruned heads have an entry. Shape (H,) or (L,
                H).
            use_mems: whether to return ``mems``, the memory for the next segment.
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return the outputs of the embeddings and blocks.
            output_kernels: whether to return the name of the kernel of each attention.
            only_last: whether to return only the last token's hidden state, shape (B, 1, D).
                Training then skips nearly all computation for padding.

        Raises:
            UserError: a shape, a type or a value is wrong. Values are checked only on the CPU.
        """
        config = self.config
        tokens = inputs.check_tokens(input_ids, inputs_embeds, 0, self.max_positions, config)
        batch, length = tokens.shape[:2]
        shape = (batch, length)
        memory = streams.check_memory(mems, batch, config)
        targets = streams.check_targets(target_mapping, shape)
        mask = streams.padding(attention_mask, input_mask, shape)
        can_pack = only_last and memory is None and targets is None and not output_hidden_states
        returned, packing = use_mems or output_attentions, None
        if self.training and can_pack and not (returned or has_user_hooks(self)):
            packing = inputs.packing_of(attention_mask if input_mask is None else mask, tokens)
        context = streams.context_of(
            config,
            shape,
            0 if memory is None else memory[0].shape[1],
            real=mask,
            perm_mask=perm_mask,
            token_type_ids=token_type_ids,
            targets=targets,
            device=tokens.device,
        )
        assert context.relations is not None
        vectors = self.dropout(context.relations.vectors)
        relations = replace(context.relations, vectors=vectors)
        head_mask = inputs.check_head_mask("head_mask", head_mask, self.head_masks())
        encoded = self.encoder(
            self.embeddings(tokens, 0 if targets is None else targets.positions.shape[1], packing),
            replace(context, relations=relations, packing=packing),
            head_mask=head_mask,
            memory=memory,
            weights_of=range(len(self.encoder.blocks)) if output_attentions else (),
            need_states=output_hidden_states or use_mems,
            recompute=self.gradient_checkpointing and self.training,
        )
        content = [state[:, :length] for state in encoded.states]
        states, attentions = encoded.states, encoded.attentions
        if targets is not None:
            states = tuple(part for state in states for part in _streams(state, length, 1))
            if attentions is not None:
                attentions = tuple(_streams(weights, length, 2) for weights in attentions)
        hidden = states[-1]
        if only_last:
            hidden = _last(hidden, mask if targets is None else None, packing)
        return XLNetModelOutput(
            last_hidden_state=self.dropout(hidden),
            mems=streams.remember(content[:-1], memory, config) if use_mems else None,
            hidden_states=states if output_hidden_states else None,
            attentions=attentions,
            kernels=encoded.kernels if output_kernels else None,
        )


def _streams(both: Tensor, length: int, dimension: int) -> tuple[Tensor, Tensor]:
    """Split a tensor of both streams into content stream and query stream."""
    content, query = both.tensor_split([length], dimension)
    return content, query


def _last(hidden: Tensor, mask: Tensor | None, packing: Packing | None) -> Tensor:
    """Return the hidden state of the last token of each sequence, shape (B, 1, D).

    Args:
        hidden: hidden states, shape (B, S, D), or (1, tokens, D) if packed.
        mask: padding mask, True for a token; None without padding. Shape (B, S).
        packing: packing of the hidden states, if they are packed.
    """
    if mask is None:
        return hidden[:, -1:]
    positions = last_positions(mask)
    if packing is not None:
        return packing.gather(hidden, positions)
    return hidden[torch.arange(positions.shape[0], device=positions.device), positions][:, None]
