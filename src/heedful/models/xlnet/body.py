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
from heedful.models.encoder import Variant, stack
from heedful.models.heads import last_places
from heedful.models.outputs import XLNetModelOutput
from heedful.models.pretrained import initialise
from heedful.models.xlnet import names, streams
from heedful.models.xlnet.config import USUAL_POSITIONS, XLNetConfig


class StreamEmbeddings(nn.Module):
    """The vectors that both streams start from.

    Args:
        vocab_size: number of pieces in the vocabulary.
        width: D.
        dropout: probability with which a value is dropped in training.
    """

    def __init__(self, vocab_size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, width)
        self.mask_embedding = Vectors(1, width)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, predicted: int, packing: Packing | None = None) -> Tensor:
        """Return shape (B, S + P, D), or (1, tokens, D) if it is to be packed.

        Args:
            tokens: ids, shape (B, S), or vectors in their place, shape (B, S, D).
            predicted: P. All of these start from one vector.
            packing: where the tokens stand, if the padding is to be left out; P is 0 then.
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
        config: its sizes and options.
    """

    config: XLNetConfig
    embeddings: StreamEmbeddings
    prefix = names.PREFIX
    in_files = names.IN_FILES
    packs_for = "last"

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
        self.encoder = stack(config, variant)
        self.dropout = Dropout(config.dropout)
        self.pooler = None
        initialise(self, config.initializer_range)
        for block in self.encoder.blocks:  # a weight of its own, and drawn as such
            nn.init.normal_(block.attention.self.query.bias, std=config.initializer_range)

    def why_not_compiled(self) -> str | None:
        """Return None: its blocks have a compiled form."""
        return None

    @property
    def usual_positions(self) -> int:
        """How many tokens are read at once where nobody says."""
        return USUAL_POSITIONS

    def from_file_layout(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Join what a file keeps by heads."""
        return names.split(tensors)

    def to_file_layout(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Do the reverse."""
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
            attention_mask: 1 or True for a token, 0 or False for padding. Shape (B, S). All of the
                memory may be attended to.
            token_type_ids: only whether those of two tokens are equal counts; tokens of the memory
                have type 0. Shape (B, S) or (1, S).
            mems: what an earlier call returned, attended to as what came before. For each block
                shape (M, B, D).
            perm_mask: 1 where token i must not attend to token j. Shape (B, S, S).
            target_mapping: 1 where prediction p is of token i; a second stream computes it without
                seeing that token, if ``perm_mask`` hides it. Shape (B, P, S).
            input_mask: the reverse of ``attention_mask``, in its place.
            inputs_embeds: word vectors instead of ``input_ids``. Shape (B, S, D).
            head_mask: what each head's output is multiplied by; heads that were pruned count. Shape
                (H,) or (L, H).
            use_mems: whether to return ``mems``: what to give to the call for the next segment.
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return what comes out of the embeddings and blocks.
            output_kernels: whether to say which kernel each attention ran on.
            only_last: whether the last token's last state is all that is wanted: shape (B, 1, D).
                Training then computes next to nothing for padding.

        Raises:
            UserError: a shape, a type, or (where looking costs nothing) a value is wrong.
        """
        config = self.config
        tokens = inputs.check_tokens(input_ids, inputs_embeds, 0, self.max_positions, config)
        batch, length = tokens.shape[:2]
        shape = (batch, length)
        memory = streams.check_memory(mems, batch, config)
        targets = streams.check_targets(target_mapping, shape)
        real = streams.padding(attention_mask, input_mask, shape)
        alone = memory is None and targets is None and not (use_mems or output_attentions)
        packing = None
        if self.training and only_last and alone and not output_hidden_states:
            packing = inputs.packing_of(attention_mask if input_mask is None else real, tokens)
        context = streams.context_of(
            config,
            shape,
            0 if memory is None else memory[0].shape[1],
            real=real,
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
            self.embeddings(tokens, 0 if targets is None else targets.places.shape[1], packing),
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
            hidden = _last(hidden, real if targets is None else None, packing)
        return XLNetModelOutput(
            last_hidden_state=self.dropout(hidden),
            mems=streams.remember(content[:-1], memory, config) if use_mems else None,
            hidden_states=states if output_hidden_states else None,
            attentions=attentions,
            kernels=encoded.kernels if output_kernels else None,
        )


def _streams(both: Tensor, length: int, dimension: int) -> tuple[Tensor, Tensor]:
    """Take apart what was computed for the content stream and for the query stream."""
    content, query = both.tensor_split([length], dimension)
    return content, query


def _last(hidden: Tensor, real: Tensor | None, packing: Packing | None) -> Tensor:
    """Return the last token of each sequence, shape (B, 1, D).

    Args:
        hidden: shape (B, S, D), or (1, tokens, D) if packed.
        real: True for a token; None without padding. Shape (B, S).
        packing: of the tokens.
    """
    if real is None:
        return hidden[:, -1:]
    places = last_places(real)
    if packing is not None:
        return packing.at(hidden, places)
    return hidden[torch.arange(places.shape[0], device=places.device), places][:, None]
