"""The Transformer (Vaswani et al. 2017): an encoder that reads, a decoder that writes.

Its weights have other names in the reference's folders: ``names.py``.

Shapes: B batch, E source length, S target length, N hypotheses or places that are scored, W most
hypotheses of an item, H heads, L blocks, D model width, V target vocabulary.
"""

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful import losses, sources
from heedful.decoding.search import Hypothesis, Search
from heedful.decoding.search import search as find
from heedful.errors import UserError
from heedful.layers import masks
from heedful.layers.block import Block, BlockOptions, Context
from heedful.layers.cache import KeyValue
from heedful.layers.dropout import Dropout
from heedful.layers.positions import Sinusoids
from heedful.layers.stack import Stack, StackOutput
from heedful.layers.tree import Tree
from heedful.models import pretrained
from heedful.models.generation import settle_alone
from heedful.models.heads.word_scores import labelled
from heedful.models.inputs import check_ids, check_sequences, shift_right
from heedful.models.model import Model
from heedful.models.outputs import TranslationOutput
from heedful.models.transformer import names
from heedful.models.transformer.config import TransformerConfig
from heedful.models.weights import read_weights


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerState:
    """What is kept of the hypotheses of a search. Only the newest may be used: see ``Tree``."""

    tree: Tree
    """The keys and values of their tokens."""
    crosses: list[KeyValue]
    """What each block attends to: of each item once. Each of shape (B, H, E, K)."""
    cross_mask: Tensor | None
    """Shape (B, 1, 1, E), bool."""
    coverage: Tensor | None
    """How much has been attended to each source token so far, if that counts; padding counts as
    attended to. Shape (N, E)."""

    def select(self, rows: Tensor) -> "TransformerState":
        """Return what is kept of some rows, in that order, any of them several times.

        Args:
            rows: numbers of rows. Shape (N,), int64.
        """
        tree, closing = self.tree.select(rows)
        crosses, cross_mask = self.crosses, self.cross_mask
        if closing is not None:
            crosses = [KeyValue(*map(closing.close, cross)) for cross in crosses]
            cross_mask = None if cross_mask is None else closing.close(cross_mask)
        return TransformerState(
            tree=tree,
            crosses=crosses,
            cross_mask=cross_mask,
            coverage=None if self.coverage is None else self.coverage.index_select(0, rows),
        )


class Transformer(Model):
    """An encoder and a decoder with a score for each target piece.

    Args:
        config: its sizes and options.
    """

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = _encoder(config)
        self.target_embeddings = None
        if not config.share_encoder_decoder_embeddings:
            self.target_embeddings = nn.Embedding(
                config.decoder_vocab_size, config.d_model, config.pad_token_id
            )
        self.decoder = _decoder(config)
        self.positions = Sinusoids(config.d_model)
        self.lm_head = None
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.d_model, config.decoder_vocab_size, bias=False)
        # Not trained: here for the reference's models, some of which have one.
        self.final_logits_bias: Tensor
        self.register_buffer("final_logits_bias", torch.zeros(1, config.decoder_vocab_size))
        self.dropout = Dropout(config.dropout)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self._initialise()

    @classmethod
    def from_pretrained(
        cls,
        name: str | os.PathLike[str],
        *,
        dropout: float | None = None,
        revision: str | None = None,
        allow_pickle: bool = False,
    ) -> Self:
        """Read a model in evaluation mode, with float32 weights.

        Args:
            name: see ``heedful.sources.resolve``.
            dropout: of the embeddings and of what each part of a block adds; None stays as the
                folder says.
            revision: commit, tag or branch of a hub name.
            allow_pickle: whether to read ``pytorch_model.bin`` where there is no safetensors file.

        Raises:
            UserError: there is no such model, its configuration is not supported, or its weights
                do not fit it.
        """
        folder = sources.resolve(name, revision)
        config = TransformerConfig.read(folder / pretrained.CONFIG)
        if dropout is not None:
            config = replace(config, dropout=dropout)
        tensors = read_weights(folder, allow_pickle)
        with torch.device("meta"):  # no time or memory for weights that are read next
            model = cls(config)
        weights = names.from_file(tensors, model.state_dict(), config, folder)
        model = model.to_empty(device="cpu")
        model.load_state_dict(weights)
        return model.eval()

    def file_weights(self) -> dict[str, Tensor]:
        """Return the weights under the names of the reference's folders."""
        return names.to_file(self.state_dict(), self.config)

    def _initialise(self) -> None:
        """Draw fresh weights.

        Those of products are uniform, as wide as the widths say (Glorot and Bengio 2010, equation
        16), those of words normal and of about unit length.
        """
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
            elif isinstance(part, nn.Embedding):
                nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
                assert part.padding_idx is not None
                with torch.no_grad():
                    part.weight[part.padding_idx].zero_()
        if self.lm_head is not None:
            nn.init.normal_(self.lm_head.weight, std=self.lm_head.in_features**-0.5)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        reduction: losses.Reduction = "mean",
        return_attentions: bool = False,
    ) -> TranslationOutput:
        """Score what follows every target token, or with labels what has a label.

        Args:
            input_ids: the texts to read, each with its ending piece. Shape (B, E).
            attention_mask: 1 or True for a token, 0 or False for padding. Shape (B, E).
            decoder_input_ids: the texts to write after their start, as far as they are known. Shape
                (B, S). If None, the labels shifted to the right.
            labels: the texts to write, each with its ending piece, -100 for what is not scored.
                Shape (B, S).
            reduction: whether the loss is the mean over the labels or their sum.
            return_attentions: whether to return the attention weights.

        Raises:
            UserError: an argument has a wrong shape, type or value, or both of the last are None.
        """
        config = self.config
        positions = None
        if decoder_input_ids is None:
            if labels is None:
                raise UserError("give decoder_input_ids or labels: what to write")
            decoder_input_ids = self._shift(labels)
        if labels is not None:
            shape = tuple(decoder_input_ids.shape)
            positions = labelled(labels, None, shape, config.decoder_vocab_size)
        blocks = config.encoder_layers if return_attentions else 0
        encoded = self._encode(input_ids, attention_mask, range(blocks))
        blocks = config.decoder_layers if return_attentions else 0
        decoded = self._decode(decoder_input_ids, encoded.hidden, attention_mask, range(blocks))
        hidden = decoded.hidden if positions is None else decoded.hidden.flatten(0, 1)[positions]
        logits = self._score(hidden)
        loss = None
        if labels is not None:
            smoothing = config.label_smoothing if self.training else 0.0
            total, count = losses.cross_entropy(
                logits, labels.flatten()[positions], label_smoothing=smoothing
            )
            loss = losses.reduced(total, count, reduction)
        return TranslationOutput(
            loss=loss,
            logits=logits,
            positions=positions,
            encoder_last_hidden_state=encoded.hidden,
            encoder_attentions=encoded.attentions,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
        )

    @torch.inference_mode()
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        search: Search,
        numbers: Sequence[int] | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Write a text for each text that is read; see ``decoding.search``.

        Args:
            input_ids: the texts to read. Shape (B, E).
            attention_mask: shape (B, E).
            search: how to look. The padding piece is never written.
            numbers: of each item among all of the user's, for the draws; 0 to B - 1 if None.
            prefixes: for each item the pieces that its text must begin with.

        Raises:
            UserError: an argument has a wrong shape, type or value, or a text may become longer
                than the model can write.
        """
        config, most = self.config, self.config.max_position_embeddings
        if search.max_new_tokens > most:
            raise UserError(f"max_new_tokens is {search.max_new_tokens}; the model writes {most}")
        batch, length = input_ids.shape
        encoded = self._encode(input_ids, attention_mask).hidden
        mask = None
        if attention_mask is not None:
            mask = masks.from_attention_mask(attention_mask, batch=batch, queries=1, keys=length)
            mask = mask.clone()  # items that are left close up in it, and it may be the user's own
        state = TransformerState(
            tree=Tree.start(
                batch,
                heads=[len(block.attention.self.heads) for block in self.decoder.blocks],
                head_width=config.d_model // config.decoder_attention_heads,
                like=encoded,
            ),
            # Those of a head side by side: they are read at every step.
            crosses=[
                KeyValue(cross.key.contiguous(), cross.value.contiguous())
                for cross in self.decoder.cross_memory(encoded)
            ],
            cross_mask=mask,
            coverage=_uncovered(encoded, mask) if search.coverage_penalty else None,
        )
        first = torch.full((batch,), config.decoder_start_token_id, device=input_ids.device)
        options = replace(search, never=(*search.never, config.pad_token_id))
        found = find(self._step, state, first, options, numbers, prefixes)
        return settle_alone(found, self, input_ids, attention_mask, search, numbers, prefixes)

    @torch.inference_mode()
    def align(self, input_ids: Tensor, attention_mask: Tensor | None, target_ids: Tensor) -> Tensor:
        """Return how much each target token attends to each source token when it is written.

        The mean over the heads of the last block but one, which aligns best (Garg et al. 2019,
        section 4.1).

        Args:
            input_ids: the texts that were read. Shape (B, E).
            attention_mask: shape (B, E).
            target_ids: the texts that were written, each with its ending piece, then -100. Shape
                (B, S).

        Returns:
            Shape (B, S, E); each row sums to 1.
        """
        encoded = self._encode(input_ids, attention_mask).hidden
        ids = self._shift(target_ids)
        decoded = self._decode(ids, encoded, attention_mask, (self._aligning,))
        assert decoded.cross_attentions is not None
        return decoded.cross_attentions[0].mean(1)

    @property
    def _aligning(self) -> int:
        """The number of the decoder's block that aligns."""
        return max(0, self.config.decoder_layers - 2)

    def _encode(
        self, ids: Tensor, attention_mask: Tensor | None, weights_of: Collection[int] = ()
    ) -> StackOutput:
        check_ids("input_ids", ids, self.config.vocab_size)
        batch, length = self._check_shape("input_ids", ids)
        mask = masks.for_self_attention(
            attention_mask,
            batch=batch,
            queries=length,
            keys=length,
            causal=False,
            device=ids.device,
        )
        hidden = self._embed(self.embeddings, ids, torch.arange(length, device=ids.device))
        output: StackOutput = self.encoder(hidden, Context(mask=mask), weights_of=weights_of)
        return output

    def _decode(
        self,
        ids: Tensor,
        encoded: Tensor,
        attention_mask: Tensor | None,
        weights_of: Collection[int] = (),
    ) -> StackOutput:
        check_ids("decoder_input_ids", ids, self.config.decoder_vocab_size)
        batch, length = self._check_shape("decoder_input_ids", ids)
        cross_mask = None
        if attention_mask is not None:
            cross_mask = masks.from_attention_mask(
                attention_mask, batch=batch, queries=length, keys=encoded.shape[1]
            )
        mask = masks.for_self_attention(
            None, batch=batch, queries=length, keys=length, causal=True, device=ids.device
        )
        hidden = self._embed(self._target_table, ids, torch.arange(length, device=ids.device))
        context = Context(mask=mask, encoded=encoded, cross_mask=cross_mask)
        output: StackOutput = self.decoder(hidden, context, weights_of=weights_of)
        return output

    def _step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Score what follows the newest tokens; see ``decoding.search.Step``."""
        tree = state.tree.grow()
        position = torch.tensor(tree.length - 1, device=tokens.device)
        hidden = self._embed(self._target_table, tokens, position)  # (N, D)
        output: StackOutput = self.decoder(
            tree.places.spread(hidden),  # (B, W, D)
            Context(mask=tree.mask, cross_mask=state.cross_mask),
            past=tree.blocks(state.crosses),
            weights_of=() if state.coverage is None else (self._aligning,),
        )
        coverage = state.coverage
        if coverage is not None:
            assert output.cross_attentions is not None
            attended = output.cross_attentions[0].mean(1)  # (B, W, E)
            coverage = coverage + tree.places.collect(attended)
        logits = self._score(tree.places.collect(output.hidden))  # (N, V)
        return logits, replace(state, tree=tree, coverage=coverage)

    @property
    def _target_table(self) -> nn.Embedding:
        return self.target_embeddings or self.embeddings

    def _embed(self, table: nn.Embedding, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the vectors of pieces at positions (sections 3.4 and 3.5). Shape (..., D)."""
        vectors = table(ids) * self.scale
        vectors = vectors + self.positions(positions).to(vectors.dtype)
        # The tables may be kept wider than the weights that the blocks compute with.
        narrow = next(self.encoder.parameters()).dtype
        dropped: Tensor = self.dropout(vectors.to(narrow))
        return dropped

    def _score(self, hidden: Tensor) -> Tensor:
        """Return the logits, shape (..., V), of states of shape (..., D)."""
        weight = self._target_table.weight if self.lm_head is None else self.lm_head.weight
        weight = weight.to(hidden.dtype)
        if self.lm_head is None and torch.is_grad_enabled():
            # As a score it would be trained, and what starts a text would be zeros no more.
            padding = torch.tensor([self.config.pad_token_id], device=weight.device)
            weight = weight.index_copy(0, padding, weight.detach()[padding])
        bias = self.final_logits_bias[0].to(hidden.dtype)
        # Mostly it is zeros, and adding those to a vocabulary of logits takes a while.
        return F.linear(hidden, weight, bias if bias.any() else None)

    def _shift(self, labels: Tensor) -> Tensor:
        """Return the token before each label, padding in the place of what has none."""
        self._check_shape("labels", labels)
        config = self.config
        return shift_right(labels, start=config.decoder_start_token_id, pad=config.pad_token_id)

    def _check_shape(self, name: str, ids: Tensor) -> tuple[int, int]:
        return check_sequences(name, ids, self.config.max_position_embeddings)


def _uncovered(encoded: Tensor, mask: Tensor | None) -> Tensor:
    """Return the coverage before the first token, shape (B, E); see ``TransformerState``."""
    coverage = encoded.new_zeros(encoded.shape[:2], dtype=torch.float32)
    return coverage if mask is None else coverage.masked_fill(~mask[:, 0, 0], 1.0)


def _encoder(config: TransformerConfig) -> Stack:
    heads = range(config.encoder_attention_heads)
    options = _block_options(config, len(heads), config.encoder_ffn_dim)
    blocks = (Block(options, heads=heads) for _ in range(config.encoder_layers))
    return Stack(blocks, _final_norm(config))


def _decoder(config: TransformerConfig) -> Stack:
    heads = range(config.decoder_attention_heads)
    options = _block_options(config, len(heads), config.decoder_ffn_dim)
    blocks = (Block(options, heads=heads, cross_heads=heads) for _ in range(config.decoder_layers))
    return Stack(blocks, _final_norm(config))


def _block_options(config: TransformerConfig, heads: int, inner_width: int) -> BlockOptions:
    return BlockOptions(
        width=config.d_model,
        head_width=config.d_model // heads,
        inner_width=inner_width,
        activation=config.activation_function,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        norm_before=config.normalize_before,
    )


def _final_norm(config: TransformerConfig) -> nn.LayerNorm | None:
    return nn.LayerNorm(config.d_model) if config.normalize_before else None
