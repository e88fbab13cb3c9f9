"""The encoder-decoder Transformer (Vaswani et al. 2017).

``names.py`` maps its weights to their names in the reference's checkpoints.

Shapes: B batch, E source length, S target length, N hypotheses or scored positions, W maximum
number of hypotheses per item, H heads, L blocks, D model width, V target vocabulary.
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
from heedful.device_transfer import blocks_host
from heedful.layers import masks
from heedful.layers.block import Context
from heedful.layers.cache import Cache
from heedful.layers.dropout import Dropout
from heedful.layers.linear import Linear, linear
from heedful.layers.packing import Packing
from heedful.layers.positions import Sinusoids
from heedful.layers.stack import StackOutput
from heedful.models.generation import regenerate_close_calls
from heedful.models.inputs import check_head_mask, check_ids, check_sequences
from heedful.models.model import Model
from heedful.models.outputs import TranslationOutput
from heedful.models.pretrained import LoadReport
from heedful.models.transformer import names, stacks
from heedful.models.transformer.config import TransformerConfig
from heedful.models.transformer.searching import generate_texts
from heedful.models.transformer.state import SearchState, Steps
from heedful.models.translation import (
    decoder_inputs,
    pack_source_and_target,
    search_options,
    shifted,
    takes_search,
    translation_loss,
)
from heedful.models.weights import allocate


class Transformer(Model):
    """Encoder and decoder with a logit for each token of the target vocabulary.

    Args:
        config: sizes and options.
    """

    config: TransformerConfig
    supports_checkpointing = True

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
        # Not trained. Some of the reference's checkpoints have this bias.
        self.final_logits_bias: Tensor
        self.register_buffer("final_logits_bias", torch.zeros(1, config.decoder_vocab_size))
        self.dropout = Dropout(config.dropout)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.compiled_steps: Steps | None = None  # replaces `start` and `step` in a search
        stacks.initialise(self, self.lm_head)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the source embeddings."""
        return self.embeddings

    def set_file_weights(
        self,
        tensors: Mapping[str, Tensor],
        folder: Path,
        *,
        fresh_head: bool = False,
        ignore_mismatched_sizes: bool = False,
    ) -> LoadReport:
        """Set every weight; see ``Model.set_file_weights``."""
        weights = names.from_file(tensors, self.state_dict(), self.config, folder)
        allocate(self)
        self.load_state_dict(weights)
        return LoadReport(fresh=[], unused=[])

    def file_weights(self) -> dict[str, Tensor]:
        """Return the weights under their names in the reference's checkpoints."""
        return names.to_file(self.state_dict(), self.config)

    def head_masks(self) -> dict[str, tuple[int, int]]:
        """Return (blocks, heads) of the head mask of each of the three kinds of attention."""
        config = self.config
        decoder = (config.decoder_layers, config.decoder_attention_heads)
        return {
            "head_mask": (config.encoder_layers, config.encoder_attention_heads),
            "decoder_head_mask": decoder,
            "cross_attn_head_mask": decoder,
        }

    @property
    def trains_packed(self) -> bool:
        """Whether training skips nearly all computation for padding; see ``Model``."""
        return True

    @property
    def num_blocks(self) -> int:
        """Number of blocks of each stack; 0 if the stacks differ."""
        encoder, decoder = len(self.encoder.blocks), len(self.decoder.blocks)
        return encoder if encoder == decoder else 0

    def keep_blocks(self, indices: Sequence[int]) -> None:
        """Keep only the given blocks of both stacks; see ``Model.keep_blocks``."""
        self.config = stacks.keep(self.encoder, self.decoder, self.config, indices)

    def prune_heads(
        self,
        heads: Mapping[int, Sequence[int]],
        *,
        decoder_heads: Mapping[int, Sequence[int]] = MappingProxyType({}),
        cross_attn_heads: Mapping[int, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        """Prune attention heads; see ``pruning.prune_heads``.

        Args:
            heads: heads of the encoder's self-attention to prune, by block number.
            decoder_heads: heads of the decoder's self-attention to prune, by block number.
            cross_attn_heads: heads of the decoder's cross-attention to prune, by block number.

        Raises:
            UserError: a block or head does not exist, or an attention would have no head left.
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
        """Return the next-token logits at every target position, or at the labelled positions.

        Args:
            input_ids: source token ids; each text ends with EOS. Shape (B, E).
            attention_mask: 1 or True for a token, 0 or False for padding. Shape (B, E).
            decoder_input_ids: target token ids so far, after the start token. Shape (B, S). If
                None, the labels shifted to the right.
            labels: target token ids, each text with its EOS; -100 is ignored in the loss. Shape
                (B, S).
            reduction: whether the loss is the mean or the sum over the labels.
            head_mask: factor of each head of the encoder's self-attention, pruned heads included.
                Shape (H,) or (L, H).
            decoder_head_mask: factors for the decoder's self-attention. Shape (H,) or (L, H).
            cross_attn_head_mask: factors for the cross-attention. Shape (H,) or (L, H).
            return_attentions: whether to return the attention weights.
            return_hidden_states: whether to return the embeddings and the output of each block.

        Raises:
            UserError: an argument has a wrong shape, type or value, or no target is given.
        """
        config = self.config
        decoder_input_ids, positions = decoder_inputs(input_ids, decoder_input_ids, labels, config)
        shapes = self.head_masks()
        source_packing = target_packing = None
        # A training step that needs only the loss returns no tensor that contains padding.
        loss_only = self.training and not (return_attentions or return_hidden_states)
        if labels is not None and loss_only:
            attends = self.encoder.supports_packing and self.decoder.supports_packing
            source_packing, target_packing = pack_source_and_target(
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
            rows = positions if target_packing is None else target_packing.inverse[positions]
            hidden = hidden.flatten(0, 1)[rows]
        logits = self.score(hidden)
        smoothing = config.label_smoothing if self.training else 0.0
        return TranslationOutput(
            loss=translation_loss(logits, labels, positions, smoothing, reduction),
            logits=logits,
            positions=positions,
            decoder_hidden_states=decoded.states if return_hidden_states else None,
            encoder_last_hidden_state=encoded.hidden if labels is None or not loss_only else None,
            encoder_hidden_states=encoded.states if return_hidden_states else None,
            encoder_attentions=encoded.attentions,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
        )

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Return the encoder's output. Shape (B, E, D); see ``forward``."""
        return self._encode(input_ids, attention_mask).hidden

    def decode(
        self,
        decoder_input_ids: Tensor,
        encoded: Tensor | None,
        attention_mask: Tensor | None = None,
        past: Cache | None = None,
    ) -> tuple[Tensor, Cache]:
        """Return the next-token logits, shape (B, S, V), and the KV cache.

        Args:
            decoder_input_ids: the newest tokens. Shape (B, S).
            encoded: output of ``encode``; not used if ``past`` holds it. Shape (B, E, D).
            attention_mask: mask of the source. Shape (B, E).
            past: the cache that the previous call returned.
        """
        decoded = self._decode(
            decoder_input_ids, encoded, attention_mask, past=past, need_cache=True
        )
        assert decoded.cache is not None
        return self.score(decoded.hidden), decoded.cache

    @takes_search
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        search: Search,
        item_seeds: Sequence[int] | None = None,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Generate a text for each source text; see ``decoding.search``.

        Args:
            input_ids: source token ids. Shape (B, E).
            attention_mask: mask of the source. Shape (B, E).
            search: search options. The padding token is never generated.
            item_seeds: see ``decoding.search``.
            prefixes: for each item, the token ids that its text must begin with.

        Raises:
            UserError: an argument has a wrong shape, type or value, or a text may be too long.
        """
        options = search_options(search, self.config)
        encoded = self._encode(input_ids, attention_mask).hidden
        hypotheses = generate_texts(self, encoded, attention_mask, options, item_seeds, prefixes)
        return regenerate_close_calls(
            hypotheses, self, input_ids, attention_mask, search, item_seeds, prefixes
        )

    @torch.inference_mode()
    def align(self, input_ids: Tensor, attention_mask: Tensor | None, target_ids: Tensor) -> Tensor:
        """Return the attention weights on the source tokens when each target token is generated.

        This is the mean over the heads of the second-to-last block, which aligns best (Garg et al.
        2019, section 4.1).

        Args:
            input_ids: source token ids. Shape (B, E).
            attention_mask: mask of the source. Shape (B, E).
            target_ids: target token ids, each text with its EOS, then -100. Shape (B, S).

        Returns:
            Shape (B, S, E); each row sums to 1.
        """
        encoded = self._encode(input_ids, attention_mask).hidden
        ids = shifted(target_ids, self.config)
        decoded = self._decode(ids, encoded, attention_mask, weights_of=(self.alignment_layer,))
        assert decoded.cross_attentions is not None
        return decoded.cross_attentions[0].mean(1)

    @property
    def alignment_layer(self) -> int:
        """Number of the decoder block whose cross-attention gives the alignment."""
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
                encoder_hidden_states=encoded,
                cross_mask=cross_mask,
                need_cache=need_cache,
                packing=packing,
                encoder_packing=encoded_packing,
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
        """Return the search state before the first token; see ``SearchState``."""
        return SearchState.start(self.decoder, encoded, mask, cover=cover)

    def step(self, tokens: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Return the next tokens' logits and the new state, as a ``ScoreFunction``."""
        tree = state.tree.grow()
        position = torch.tensor(tree.length - 1, device=tokens.device)
        hidden = self.embed(self.target_table, tokens, position)  # (N, D)
        mask = torch.from_numpy(tree.mask).to(tokens.device)  # (B, W, M)
        output: StackOutput = self.decoder(
            tree.grid.scatter(hidden),  # (B, W, D)
            Context(mask=mask[:, None], cross_mask=state.cross_mask),
            past=tree.blocks(state.cross_key_values),
            weights_of=() if state.coverage is None else (self.alignment_layer,),
        )
        coverage = state.coverage
        if coverage is not None:
            assert output.cross_attentions is not None
            attended = output.cross_attentions[0].mean(1)  # (B, W, E)
            coverage = coverage + tree.grid.gather(attended)
        logits = self.score(tree.grid.gather(output.hidden))  # (N, V)
        return logits, replace(state, tree=tree, coverage=coverage)

    @property
    def target_table(self) -> nn.Embedding:
        """The target embeddings."""
        return self.target_embeddings or self.embeddings

    def _embed_all(
        self, table: nn.Embedding, ids: Tensor, start: int, packing: Packing | None
    ) -> Tensor:
        """Return the embeddings of sequences of token ids, packed or padded; see ``embed``."""
        length = ids.shape[1]
        if packing is None:
            return self.embed(table, ids, torch.arange(start, start + length, device=ids.device))
        return self.embed(table, packing.pack_ids(ids), start + packing.indices % length)

    def embed(self, table: nn.Embedding, ids: Tensor, positions: Tensor) -> Tensor:
        """Return token plus position embeddings (sections 3.4 and 3.5). Shape (..., D)."""
        vectors = table(ids) * self.scale
        vectors = vectors + self.positions(positions).to(vectors.dtype)
        # The embedding tables may have a wider dtype than the weights of the blocks.
        compute_dtype = next(self.encoder.parameters()).dtype
        dropped: Tensor = self.dropout(vectors.to(compute_dtype))
        return dropped

    def score(self, hidden: Tensor) -> Tensor:
        """Return the logits, shape (..., V), of hidden states of shape (..., D)."""
        weight = self.target_table.weight if self.lm_head is None else self.lm_head.weight
        weight = weight.to(hidden.dtype)
        if self.lm_head is None and torch.is_grad_enabled():
            # No gradient for the padding row: as the start token's embedding it must stay zero.
            padding = torch.full((1,), self.config.pad_token_id, device=weight.device)
            weight = weight.index_copy(0, padding, weight.detach()[padding])
        bias = self.final_logits_bias[0].to(hidden.dtype)
        # The bias is usually zero, and adding zeros to all logits is slow.
        can_check = not (torch.compiler.is_compiling() or blocks_host(bias.device))
        add_bias = not can_check or bool(bias.any())
        return linear(hidden, weight, bias if add_bias else None)

    def _check_shape(self, name: str, ids: Tensor) -> tuple[int, int]:
        return check_sequences(name, ids, self.config.max_position_embeddings)
