"""The Transformer (Vaswani et al. 2017): an encoder that reads, a decoder that writes.

Its weights have other names in the reference's folders: ``names.py``.

Shapes: B batch, E source length, S target length, N hypotheses or positions that are scored, W most
hypotheses of an item, H heads, L blocks, D model width, V target vocabulary.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn

from heedful import losses
from heedful.decoding.search import Hypothesis, Search
from heedful.host import waits
from heedful.layers import masks
from heedful.layers.block import Context
from heedful.layers.cache import Cache
from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear, linear
from heedful.layers.packing import Packing
from heedful.layers.positions import Sinusoids
from heedful.layers.stack import StackOutput
from heedful.models.generation import settle_alone
from heedful.models.inputs import check_head_mask, check_ids, check_sequences
from heedful.models.model import Model
from heedful.models.outputs import TranslationOutput
from heedful.models.pretrained import LoadReport
from heedful.models.transformer import names, stacks
from heedful.models.transformer.config import TransformerConfig
from heedful.models.transformer.searching import find_texts
from heedful.models.transformer.state import SearchState, Steps
from heedful.models.translation import loss_of, options_of, packings, shifted, to_write
from heedful.models.weights import allocate


class Transformer(Model):
    """An encoder and a decoder with a score for each target piece.

    Args:
        config: its sizes and options.
    """

    config: TransformerConfig
    can_recompute = True

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = nn.Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = stacks.encoder(config)
        self.target_embeddings = None
        if not config.share_encoder_decoder_embeddings:
            self.target_embeddings = nn.Embedding(
                config.decoder_vocab_size, config.d_model, config.pad_token_id
            )
        self.decoder = stacks.decoder(config)
        self.positions = Sinusoids(config.d_model)
        self.lm_head = None
        if not config.tie_word_embeddings:
            self.lm_head = Linear(config.d_model, config.decoder_vocab_size, bias=False)
        # Not trained: here for the reference's models, some of which have one.
        self.final_logits_bias: Tensor
        self.register_buffer("final_logits_bias", torch.zeros(1, config.decoder_vocab_size))
        self.dropout = Dropout(config.dropout)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.compiled_steps: Steps | None = None  # what else takes the steps of a search
        stacks.initialise(self, self.lm_head)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the embeddings of source pieces."""
        return self.embeddings

    def set_file_weights(
        self, tensors: Mapping[str, Tensor], folder: Path, *, fresh_head: bool = False
    ) -> LoadReport:
        """Set every weight; see ``Model.set_file_weights``."""
        weights = names.from_file(tensors, self.state_dict(), self.config, folder)
        allocate(self)
        self.load_state_dict(weights)
        return LoadReport(fresh=[], unused=[])

    def file_weights(self) -> dict[str, Tensor]:
        """Return the weights under the names of the reference's folders."""
        return names.to_file(self.state_dict(), self.config)

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return those of the three kinds of attention."""
        config = self.config
        decoder = (config.decoder_layers, config.decoder_attention_heads)
        return {
            "head_mask": (config.encoder_layers, config.encoder_attention_heads),
            "decoder_head_mask": decoder,
            "cross_attn_head_mask": decoder,
        }

    @property
    def learns_unpadded(self) -> bool:
        """Whether training computes next to nothing for padding; see ``Model``."""
        return True

    @property
    def num_blocks(self) -> int:
        """How many blocks both stacks have; 0 if one has more."""
        encoder, decoder = len(self.encoder.blocks), len(self.decoder.blocks)
        return encoder if encoder == decoder else 0

    def keep_blocks(self, numbers: Sequence[int]) -> None:
        """Keep some of the blocks of both stacks; see ``Model.keep_blocks``."""
        self.config = stacks.keep(self.encoder, self.decoder, self.config, numbers)

    def prune_heads(
        self,
        heads: Mapping[int, Sequence[int]],
        *,
        decoder_heads: Mapping[int, Sequence[int]] = MappingProxyType({}),
        cross_attn_heads: Mapping[int, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        """Take attention heads out; see ``pruning.prune_heads``.

        Args:
            heads: the numbers of those of the encoder, by the number of the block.
            decoder_heads: the same of the decoder's attention to itself.
            cross_attn_heads: the same of its attention to the encoder.

        Raises:
            UserError: there is no such block or head, or it would be the last of an attention.
        """
        both = (self.encoder, self.decoder)
        self.config = stacks.prune(*both, self.config, heads, decoder_heads, cross_attn_heads)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        reduction: losses.Reduction = "mean",
        head_mask: Tensor | None = None,
        decoder_head_mask: Tensor | None = None,
        cross_attn_head_mask: Tensor | None = None,
        return_attentions: bool = False,
        return_hidden_states: bool = False,
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
            head_mask: what each head of the encoder is multiplied by; heads that were pruned
                count. Shape (H,) or (L, H).
            decoder_head_mask: the same of the decoder's attention to itself.
            cross_attn_head_mask: the same of its attention to the encoder.
            return_attentions: whether to return the attention weights.
            return_hidden_states: whether to return what comes out of the embeddings and blocks.

        Raises:
            UserError: an argument has a wrong shape, type or value, or there is nothing to write.
        """
        config = self.config
        decoder_input_ids, positions = to_write(decoder_input_ids, labels, config)
        shapes = self.head_masks()
        source_packing = target_packing = None
        # Who learns from labels asks for nothing that padding would be part of.
        only_learns = self.training and not (return_attentions or return_hidden_states)
        if labels is not None and only_learns:
            attends = self.encoder.attends_to_texts and self.decoder.attends_to_texts
            source_packing, target_packing = packings(
                input_ids, attention_mask, decoder_input_ids, labels, attends=attends
            )
        encoded = self._encode(
            input_ids,
            attention_mask,
            packing=source_packing,
            head_mask=check_head_mask("head_mask", head_mask, shapes),
            weights_of=range(config.encoder_layers if return_attentions else 0),
            need_states=return_hidden_states,
        )
        decoded = self._decode(
            decoder_input_ids,
            encoded.hidden,
            attention_mask,
            packing=target_packing,
            encoded_packing=source_packing,
            head_mask=check_head_mask("decoder_head_mask", decoder_head_mask, shapes),
            cross_head_mask=check_head_mask("cross_attn_head_mask", cross_attn_head_mask, shapes),
            weights_of=range(config.decoder_layers if return_attentions else 0),
            need_states=return_hidden_states,
        )
        hidden = decoded.hidden
        if positions is not None:
            rows = positions if target_packing is None else target_packing.numbers[positions]
            hidden = hidden.flatten(0, 1)[rows]
        logits = self.score(hidden)
        smoothing = config.label_smoothing if self.training else 0.0
        return TranslationOutput(
            loss=loss_of(logits, labels, positions, smoothing, reduction),
            logits=logits,
            positions=positions,
            decoder_hidden_states=decoded.states if return_hidden_states else None,
            encoder_last_hidden_state=encoded.hidden if labels is None or not only_learns else None,
            encoder_hidden_states=encoded.states if return_hidden_states else None,
            encoder_attentions=encoded.attentions,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
        )

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return what the decoder attends to. Shape (B, E, D); see ``forward``."""
        return self._encode(input_ids, attention_mask).hidden

    def decode(
        self,
        decoder_input_ids: Tensor,
        encoded: Tensor | None,
        attention_mask: Tensor | None = None,
        past: Cache | None = None,
    ) -> tuple[Tensor, Cache]:
        """Score what follows each token, (B, S, V), and return what a later call goes on from.

        Args:
            decoder_input_ids: the newest tokens. Shape (B, S).
            encoded: what ``encode`` returned; not read where it is cached. Shape (B, E, D).
            attention_mask: of it. Shape (B, E).
            past: what an earlier call returned.
        """
        decoded = self._decode(
            decoder_input_ids, encoded, attention_mask, past=past, need_cache=True
        )
        assert decoded.cache is not None
        return self.score(decoded.hidden), decoded.cache

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
        options = options_of(search, self.config)
        encoded = self._encode(input_ids, attention_mask).hidden
        hypotheses = find_texts(self, encoded, attention_mask, options, numbers, prefixes)
        return settle_alone(hypotheses, self, input_ids, attention_mask, search, numbers, prefixes)

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
        ids = shifted(target_ids, self.config)
        decoded = self._decode(ids, encoded, attention_mask, weights_of=(self.aligning,))
        assert decoded.cross_attentions is not None
        return decoded.cross_attentions[0].mean(1)

    @property
    def aligning(self) -> int:
        """The number of the decoder's block that aligns."""
        return max(0, self.config.decoder_layers - 2)

    def _encode(
        self,
        ids: Tensor,
        attention_mask: Tensor | None,
        *,
        packing: Packing | None = None,
        head_mask: Tensor | None = None,
        weights_of: Collection[int] = (),
        need_states: bool = False,
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
        output: StackOutput = self.encoder(
            self._embed_all(self.embeddings, ids, 0, packing),
            Context(mask=mask, packing=packing),
            head_mask=head_mask,
            weights_of=weights_of,
            need_states=need_states,
            recompute=self.gradient_checkpointing and self.training,
        )
        return output

    def _decode(
        self,
        ids: Tensor,
        encoded: Tensor | None,
        attention_mask: Tensor | None,
        *,
        packing: Packing | None = None,
        encoded_packing: Packing | None = None,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        weights_of: Collection[int] = (),
        need_states: bool = False,
        past: Cache | None = None,
        need_cache: bool = False,
    ) -> StackOutput:
        check_ids("decoder_input_ids", ids, self.config.decoder_vocab_size)
        batch, length = self._check_shape("decoder_input_ids", ids)
        cross_mask = None
        if attention_mask is not None:
            cross_mask = masks.from_attention_mask(
                attention_mask, batch=batch, queries=length, keys=attention_mask.shape[1]
            )
        start = 0 if past is None else past.length
        mask = masks.for_self_attention(
            None, batch=batch, queries=length, keys=start + length, causal=True, device=ids.device
        )
        output: StackOutput = self.decoder(
            self._embed_all(self.target_table, ids, start, packing),
            Context(
                mask=mask,
                encoded=encoded,
                cross_mask=cross_mask,
                need_cache=need_cache,
                packing=packing,
                encoded_packing=encoded_packing,
                causal=True,
            ),
            head_mask=head_mask,
            cross_head_mask=cross_head_mask,
            past=None if past is None else past.blocks,
            weights_of=weights_of,
            need_states=need_states,
            recompute=self.gradient_checkpointing and self.training,
        )
        return output

    def start(self, encoded: Tensor, mask: Tensor | None, *, cover: bool) -> SearchState:
        """Return what a search keeps before the first token; see ``SearchState``."""
        return SearchState.start(self.decoder, encoded, mask, cover=cover)

    def step(self, tokens: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Score what follows the newest tokens; see ``decoding.search.NextScores``."""
        tree = state.tree.grow()
        position = torch.tensor(tree.length - 1, device=tokens.device)
        hidden = self.embed(self.target_table, tokens, position)  # (N, D)
        mask = torch.from_numpy(tree.mask).to(tokens.device)  # (B, W, M)
        output: StackOutput = self.decoder(
            tree.grid.spread(hidden),  # (B, W, D)
            Context(mask=mask[:, None], cross_mask=state.cross_mask),
            past=tree.blocks(state.crosses),
            weights_of=() if state.coverage is None else (self.aligning,),
        )
        coverage = state.coverage
        if coverage is not None:
            assert output.cross_attentions is not None
            attended = output.cross_attentions[0].mean(1)  # (B, W, E)
            coverage = coverage + tree.grid.collect(attended)
        logits = self.score(tree.grid.collect(output.hidden))  # (N, V)
        return logits, replace(state, tree=tree, coverage=coverage)

    @property
    def target_table(self) -> nn.Embedding:
        """The embeddings of target pieces."""
        return self.target_embeddings or self.embeddings

    def _embed_all(
        self, table: nn.Embedding, ids: Tensor, start: int, packing: Packing | None
    ) -> Tensor:
        """Return the vectors of sequences of pieces; see ``embed``."""
        length = ids.shape[1]
        if packing is None:
            return self.embed(table, ids, torch.arange(start, start + length, device=ids.device))
        return self.embed(table, packing.pack_ids(ids), start + packing.rows % length)

    def embed(self, table: nn.Embedding, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the vectors of pieces at positions (sections 3.4 and 3.5). Shape (..., D)."""
        vectors = table(ids) * self.scale
        vectors = vectors + self.positions(positions).to(vectors.dtype)
        # The tables may be kept wider than the weights that the blocks compute with.
        narrow = next(self.encoder.parameters()).dtype
        dropped: Tensor = self.dropout(vectors.to(narrow))
        return dropped

    def score(self, hidden: Tensor) -> Tensor:
        """Return the logits, shape (..., V), of states of shape (..., D)."""
        weight = self.target_table.weight if self.lm_head is None else self.lm_head.weight
        weight = weight.to(hidden.dtype)
        if self.lm_head is None and torch.is_grad_enabled():
            # As a score it would be trained, and what starts a text would be zeros no more.
            padding = torch.full((1,), self.config.pad_token_id, device=weight.device)
            weight = weight.index_copy(0, padding, weight.detach()[padding])
        bias = self.final_logits_bias[0].to(hidden.dtype)
        # Mostly it is zeros, and adding those to a vocabulary of logits takes a while.
        looks = not (torch.compiler.is_compiling() or waits(bias.device))
        needed = not looks or bool(bias.any())
        return linear(hidden, weight, bias if needed else None)

    def _check_shape(self, name: str, ids: Tensor) -> tuple[int, int]:
        return check_sequences(name, ids, self.config.max_position_embeddings)
