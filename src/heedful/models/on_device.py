"""Decoder steps of a search that runs on the device; see ``decoding/on_device.py``.

Shapes: B batch, W hypotheses per item, S longest prompt, E length of the encoder's output, D model
width, V vocabulary.
"""

import torch
from torch import Tensor

from heedful.decoding.options import StepInput
from heedful.layers import masks
from heedful.layers.block import Context
from heedful.layers.cache import Cache
from heedful.layers.stack import StackOutput
from heedful.layers.static_cache import FixedCache, no_nodes
from heedful.models.decoders import EncoderOutput
from heedful.models.encoder import Encoder
from heedful.models.model import Model
from heedful.models.with_head import ModelWithHead, language_head


def supports_device_search(decoder: Model) -> bool:
    """Return whether a decoder supports an on-device search.

    It does if it only uses positions by adding position embeddings to word embeddings.
    """
    if not isinstance(decoder, ModelWithHead) or language_head(decoder) is None:
        return False
    body = decoder.body
    if not isinstance(body, Encoder):
        return False
    return not (body.queries_add_positions or body.encoder.uses_positions)


class DecoderSteps:
    """Decoder steps of an on-device search, with the KV cache of the hypotheses.

    A batch may mix prompts of different lengths.

    Args:
        decoder: a decoder for which ``supports_device_search`` is true.
        prompts: token ids. Shape (B, S).
        lengths: number of tokens of each prompt. The constructor reads all tokens but the last.
            Shape (B,).
        encoded: encoder output that the decoder attends to.
    """

    def __init__(
        self, decoder: Model, prompts: Tensor, lengths: Tensor, encoded: EncoderOutput | None
    ) -> None:
        assert isinstance(decoder, ModelWithHead)
        head, body = language_head(decoder), decoder.body
        assert isinstance(body, Encoder)
        assert head is not None
        self.body, self.head = body, head
        self.vectors = decoder.get_input_embeddings()
        self.vocabulary = body.config.vocab_size
        self.coverage: Tensor | None = None
        longest = prompts.shape[1] - 1
        self.prompt_mask = torch.arange(longest, device=prompts.device) < (lengths - 1)[:, None]
        self.positions = (body.first_position + lengths - 1)[:, None]  # (B, 1), of the next token
        mask = None
        if encoded is not None and encoded.mask is not None:
            batch, keys = encoded.mask.shape
            mask = masks.from_attention_mask(encoded.mask, batch=batch, queries=1, keys=keys)
        nodes, crosses = no_nodes(body.encoder, len(prompts)), None
        if longest:
            # Padding needs no mask here: the search masks its keys and values by `prompt_mask`.
            past: Cache = body(
                prompts[:, :longest],
                encoder_hidden_states=None if encoded is None else encoded.hidden,
                encoder_attention_mask=None if encoded is None else encoded.mask,
                use_cache=True,
            ).past_key_values
            nodes = [torch.stack(block.self_attention) for block in past.blocks]
        if encoded is not None:
            crosses = body.encoder.cross_keys_and_values(encoded.hidden)
        self.cache = FixedCache(nodes=nodes, crosses=crosses, cross_mask=mask)

    def step(self, newest: StepInput) -> tuple[Tensor, None]:
        """Return logits of the token after the newest tokens; see ``StaticDecoder.step``."""
        positions = (self.positions + newest.num_tokens).expand(newest.tokens.shape)
        padding = self.body.embeddings.padding_position
        if padding is not None:  # as ``Embeddings.default_positions`` does
            positions = torch.where(newest.tokens == padding, padding, positions)
        hidden: Tensor = self.body.embeddings(newest.tokens, None, positions)  # (B, W, D)
        if self.body.encoder.layer_norm is not None:  # pre-norm embeddings have no normalisation
            hidden = hidden.to(self.body.encoder.layer_norm.weight.dtype)
        output: StackOutput = self.body.encoder(
            hidden,
            Context(mask=newest.node_mask[:, None], cross_mask=self.cache.cross_mask),
            past=self.cache.blocks(newest.nodes),
        )
        return self.head(output.hidden, self.vectors), None

    def grow(self, nodes: int) -> None:
        """Make room for the given number of nodes."""
        self.cache.make_room(nodes)

    def keep_nodes(self, nodes: Tensor) -> None:
        """Keep only the given nodes of each item; see ``StaticDecoder.keep_nodes``."""
        self.cache.keep_nodes(nodes)

    def keep(self, items: Tensor) -> None:
        """Keep only the given items; see ``StaticDecoder.keep``."""
        self.cache.keep(items)
        self.positions = self.positions.index_select(0, items)
