"""Encoder-decoder model of two separate models, such as two BERTs (Rothe et al. 2020).

Checkpoints have the reference's format, with the weights under ``encoder.`` and ``decoder.``.

Shapes: B batch, E source length, S target length, D model width, V vocabulary.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self, Unpack, cast, overload

import torch
from torch import Tensor, nn

from heedful import losses
from heedful.decoding.search import Hypothesis, Search
from heedful.errors import UserError
from heedful.layers.cache import Cache
from heedful.layers.linear import Linear
from heedful.models import FAMILIES, generation
from heedful.models.configs import ReferenceConfig
from heedful.models.decoders import EncoderOutput
from heedful.models.encoder import Encoder
from heedful.models.encoder_decoder.config import EncoderDecoderConfig
from heedful.models.generated_ids import (
    GenerateOptions,
    Generator,
    generated_ids,
    is_search,
)
from heedful.models.inputs import shift_right
from heedful.models.labels import labelled_positions
from heedful.models.loading import bidirectional_option, load_model
from heedful.models.model import Model
from heedful.models.outputs import BertModelOutput, EncoderDecoderOutput
from heedful.models.pretrained import LoadReport, initialise, set_weights
from heedful.models.weights import allocate, check_weights
from heedful.models.with_head import ModelWithHead


class BertEncoderDecoder(Model):
    """An encoder, and a decoder with cross-attention to it.

    Args:
        encoder: the encoder, such as a ``BertModel``.
        decoder: the decoder, such as a ``BertLMHeadModel``. Its configuration has ``is_decoder``
            and ``add_cross_attention``. It may be of another family.
        decoder_start_token_id: id of the decoder's first input token, such as ``[CLS]``.

    Raises:
        UserError: the encoder is a decoder, or the decoder cannot attend to an encoder.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: ModelWithHead,
        *,
        decoder_start_token_id: int | None = None,
    ) -> None:
        super().__init__()
        if encoder.config.is_decoder:
            family = encoder.config.MODEL_TYPE
            raise UserError(
                f"the encoder's config ({family}) has is_decoder; the encoder must be bidirectional"
            )
        if not decoder.config.add_cross_attention:
            raise UserError("the decoder's config needs is_decoder and add_cross_attention")
        self.encoder = encoder
        self.decoder = decoder
        self.decoder_start_token_id = decoder_start_token_id
        widths = (encoder.config.hidden_size, decoder.config.hidden_size)
        self.enc_to_dec_proj = None if widths[0] == widths[1] else Linear(*widths)
        if self.enc_to_dec_proj is not None:
            initialise(self.enc_to_dec_proj, decoder.config.initializer_range)

    supports_checkpointing = True

    @property
    def gradient_checkpointing(self) -> bool:
        """Whether both parts use gradient checkpointing; see ``Model``."""
        return self.encoder.gradient_checkpointing

    @gradient_checkpointing.setter
    def gradient_checkpointing(self, recompute: bool) -> None:
        self.encoder.gradient_checkpointing = recompute
        self.decoder.gradient_checkpointing = recompute

    @property
    def max_positions(self) -> int:
        """Maximum source length in tokens."""
        return self.encoder.max_positions

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the encoder's word embeddings."""
        return self.encoder.get_input_embeddings()

    @property
    def max_target_positions(self) -> int:
        """Maximum target length in tokens."""
        return self.decoder.max_positions

    def check_vocabulary(self, folder: Path) -> None:
        """Check that encoder and decoder have vocabularies of the same size.

        Args:
            folder: folder of the model, which has one tokenizer.

        Raises:
            UserError: the sizes differ.
        """
        parts = self.encoder, self.decoder
        vocab_sizes = [part.get_input_embeddings().num_embeddings for part in parts]
        if vocab_sizes[0] != vocab_sizes[1]:
            raise UserError(
                f"{folder}: its encoder and decoder have vocabularies of different sizes, but one "
                "tokenizer; heedful.BertEncoderDecoder loads the model alone"
            )

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters outside the two bodies, which may have their own learning rate."""
        bridge = [] if self.enc_to_dec_proj is None else [*self.enc_to_dec_proj.parameters()]
        return [*self.encoder.head_parameters(), *self.decoder.head_parameters(), *bridge]

    @property
    def num_blocks(self) -> int:
        """Number of blocks of each part; 0 if the parts differ."""
        encoder, decoder = self.encoder.num_blocks, self.decoder.body.num_blocks
        return encoder if encoder == decoder else 0

    def keep_blocks(self, indices: Sequence[int]) -> None:
        """Keep only the given blocks of both parts; see ``Model.keep_blocks``."""
        self.encoder.keep_blocks(indices)
        self.decoder.body.keep_blocks(indices)

    @property
    def config(self) -> EncoderDecoderConfig:
        """Current configurations of the two parts."""
        return EncoderDecoderConfig(
            encoder=self.encoder.config,
            decoder=self.decoder.config,
            decoder_start_token_id=self.decoder_start_token_id,
        )

    @classmethod
    def from_encoder_decoder_pretrained(
        cls,
        encoder: str | os.PathLike[str],
        decoder: str | os.PathLike[str],
        *,
        decoder_start_token_id: int | None = None,
    ) -> Self:
        """Load each part from a folder; the decoder's cross-attention is newly initialised.

        Args:
            encoder: see ``heedful.sources.resolve``.
            decoder: see ``heedful.sources.resolve``. It may be the same folder.
            decoder_start_token_id: see the class.

        Raises:
            UserError: see ``load_model``. Also if the encoder's family is not bidirectional, or the
                decoder's family has no cross-attention.
        """
        reads = bidirectional_option(encoder)
        encoder_part = load_model(encoder, head="body", is_decoder=reads, add_cross_attention=False)
        decoder_part = load_model(
            decoder, head="causal_lm", is_decoder=True, add_cross_attention=True
        )
        return cls(encoder_part, decoder_part, decoder_start_token_id=decoder_start_token_id).eval()

    @classmethod
    def from_config(cls, config: EncoderDecoderConfig) -> Self:
        """Return a model with newly initialised weights."""
        encoder = FAMILIES[config.encoder.MODEL_TYPE].model_class("body")
        decoder = FAMILIES[config.decoder.MODEL_TYPE].model_class("causal_lm")
        return cls(
            encoder(config.encoder),
            decoder(config.decoder),
            decoder_start_token_id=config.decoder_start_token_id,
        )

    @classmethod
    def changed_config(
        cls, config: EncoderDecoderConfig, changes: Mapping[str, Any]
    ) -> EncoderDecoderConfig:
        """Return a configuration with the changes applied to each part that has the field."""

        def part(old: ReferenceConfig) -> ReferenceConfig:
            known = {field.name for field in fields(old)}
            return replace(old, **{name: changes[name] for name in changes if name in known})

        return replace(config, encoder=part(config.encoder), decoder=part(config.decoder))

    def file_weights(self) -> dict[str, Tensor]:
        """Return the weights under their names in a checkpoint."""
        parts = {
            part: model.file_weights() if isinstance(model, Model) else model.state_dict()
            for part, model in self.named_children()
        }
        return {
            f"{part}.{name}": tensor
            for part, weights in parts.items()
            for name, tensor in weights.items()
        }

    def set_file_weights(
        self,
        tensors: Mapping[str, Tensor],
        folder: Path,
        *,
        fresh_head: bool = False,
        ignore_mismatched_sizes: bool = False,
    ) -> LoadReport:
        """Set every weight; see ``Model.set_file_weights``."""
        parts = dict(self.named_children())
        weights: dict[str, dict[str, Tensor]] = {part: {} for part in parts}
        for full_name, tensor in tensors.items():
            part, _, name = full_name.partition(".")
            if part not in parts:
                raise UserError(f"{folder}: {full_name} is of no part: {', '.join(parts)}")
            weights[part][name] = tensor
        report = LoadReport(fresh=[], unused=[])
        for part, model in (("encoder", self.encoder), ("decoder", self.decoder)):
            loaded = set_weights(model, weights[part], folder / part)
            report.fresh.extend(f"{part}.{name}" for name in loaded.fresh)
            report.unused.extend(f"{part}.{name}" for name in loaded.unused)
        if self.enc_to_dec_proj is not None:
            expected = self.enc_to_dec_proj.state_dict()
            check_weights(weights["enc_to_dec_proj"], expected, folder / "enc_to_dec_proj")
            allocate(self.enc_to_dec_proj)
            self.enc_to_dec_proj.load_state_dict(weights["enc_to_dec_proj"])
            self.loaded = frozenset(f"enc_to_dec_proj.{name}" for name in expected)
        return report

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        inputs_embeds: Tensor | None = None,
        encoder_outputs: BertModelOutput | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        past_key_values: Cache | Sequence[Sequence[Tensor]] | None = None,
        use_cache: bool = False,
        labels: Tensor | None = None,
        reduction: losses.Reduction = "mean",
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> EncoderDecoderOutput:
        """Return the next-token logits at every target position, or at the labelled positions.

        Args:
            input_ids: source token ids. Shape (B, E).
            attention_mask: source mask, for the encoder and the cross-attention. Shape (B, E).
            token_type_ids: source token types. Shape (B, E).
            inputs_embeds: word vectors instead of ``input_ids``. Shape (B, E, D).
            encoder_outputs: output of an earlier call of the encoder. It replaces all source
                arguments but the mask.
            decoder_input_ids: target token ids so far. Shape (B, S).
            decoder_attention_mask: target mask. Shape (B, S).
            decoder_inputs_embeds: word vectors instead of ``decoder_input_ids``. Shape (B, S, D).
            past_key_values: the decoder's KV cache from an earlier call, which this call continues.
            use_cache: whether to return ``past_key_values``.
            labels: target token ids; -100 is ignored in the loss. Shape (B, S). Without
                ``decoder_input_ids``, the decoder reads the labels, shifted to the right after
                ``decoder_start_token_id``.
            reduction: whether the loss is the mean or the sum over the labels.
            output_attentions: whether to return the attention weights.
            output_hidden_states: whether to return the outputs of the embeddings and blocks.

        Raises:
            UserError: an argument has a wrong shape, type or value.
        """
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids,
                attention_mask,
                token_type_ids,
                inputs_embeds=inputs_embeds,
                output_attentions=output_attentions,
                output_hidden_states=output_hidden_states,
            )
        if labels is not None and decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self.shifted(labels)
            if decoder_attention_mask is None:
                decoder_attention_mask = decoder_input_ids.ne(self._pad())
        tokens = decoder_inputs_embeds if decoder_input_ids is None else decoder_input_ids
        positions = None
        if labels is not None and tokens is not None:
            shape = tuple(tokens.shape[:2])
            positions = labelled_positions(labels, None, shape, self.decoder.config.vocab_size)
        decoded = self.decoder(
            decoder_input_ids,
            decoder_attention_mask,
            inputs_embeds=decoder_inputs_embeds,
            encoder_hidden_states=self.bridge(encoder_outputs),
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            use_cache=use_cache,
            positions=positions,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        loss = None
        if labels is not None:
            total, count = losses.cross_entropy(decoded.logits, labels.flatten()[positions])
            loss = losses.reduced(total, count, reduction)
        return EncoderDecoderOutput(
            loss=loss,
            logits=decoded.logits,
            past_key_values=decoded.past_key_values,
            decoder_hidden_states=decoded.hidden_states,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
            positions=positions,
        )

    @overload
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        search: Search,
        item_seeds: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]: ...
    @overload
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Tensor: ...
    @torch.inference_mode()
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        search: Search | None = None,
        item_seeds: Sequence[int] | None = None,
        **options: Unpack[GenerateOptions],
    ) -> list[list[Hypothesis]] | Tensor:
        """Generate a text for each source text; see ``decoding.search``.

        Args:
            input_ids: source token ids. Shape (B, E).
            attention_mask: mask of the source. Shape (B, E).
            token_type_ids: shape (B, E).
            search: search options.
            item_seeds: see ``generation.generate``.
            options: without ``search``, those of the reference's ``generate``. The result is a
                tensor of token ids then, each text after the start token; see
                ``generated_ids.generated_ids``.
        """
        if not is_search(search, item_seeds, options):
            sources = (input_ids, attention_mask, token_type_ids)
            model = cast(Generator, self)
            return generated_ids(model, *sources, options, start=self._start()).ids
        hidden = self.bridge(self.encoder(input_ids, attention_mask, token_type_ids))
        encoded = EncoderOutput(hidden=hidden, mask=attention_mask)
        start = torch.full((len(input_ids), 1), self._start(), device=input_ids.device)
        texts = generation.generate(self.decoder, start, None, search, encoded, item_seeds)
        return generation.regenerate_close_calls(
            texts,
            self,
            input_ids,
            attention_mask,
            search,
            item_seeds,
            token_type_ids=token_type_ids,
        )

    def bridge(self, encoded: BertModelOutput) -> Tensor:
        """Return the encoder's output, projected to the decoder's width. Shape (B, E, D)."""
        hidden = encoded.last_hidden_state
        return hidden if self.enc_to_dec_proj is None else self.enc_to_dec_proj(hidden)

    def _start(self) -> int:
        if self.decoder_start_token_id is None:
            raise UserError("decoder_start_token_id is not set; give the id of [CLS]")
        return self.decoder_start_token_id

    def _pad(self) -> int:
        pad: int | None = self.decoder.config.pad_token_id
        if pad is None:
            raise UserError("the decoder's config has no pad_token_id to stand for missing labels")
        return pad

    def shifted(self, labels: Tensor) -> Tensor:
        """Return the decoder's input: the labels shifted right, with padding for ignored labels."""
        if labels.ndim != 2:
            raise UserError(f"labels have shape {tuple(labels.shape)}; expected (batch, length)")
        return shift_right(labels, start=self._start(), pad=self._pad())
