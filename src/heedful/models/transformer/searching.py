"""Search for a Transformer's output text, with bookkeeping on the host or on the device.

Shapes: B items, W hypotheses per item, E encoder length, D model width, V target vocabulary.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from heedful.decoding.options import Hypothesis, Search, StepInput
from heedful.decoding.search import search, search_on_device, stays_on_device
from heedful.layers import masks
from heedful.layers.block import Context
from heedful.layers.stack import StackOutput
from heedful.layers.static_cache import FixedCache, no_nodes
from heedful.models.translation import initial_coverage

if TYPE_CHECKING:
    from heedful.models.transformer.model import Transformer


def generate_texts(
    model: "Transformer",
    encoded: Tensor,
    attention_mask: Tensor | None,
    options: Search,
    item_seeds: Sequence[int] | None,
    prefixes: Sequence[Sequence[int]] | None,
) -> list[list[Hypothesis]]:
    """Generate a text for each source text; see ``Transformer.generate``.

    Args:
        model: the model that generates.
        encoded: output of the encoder. Shape (B, E, D).
        attention_mask: mask of the source. Shape (B, E).
        options: search options.
        item_seeds: see ``search``.
        prefixes: see ``search``.
    """
    batch, length, _ = encoded.shape
    mask = None
    if attention_mask is not None:
        mask = masks.from_attention_mask(attention_mask, batch=batch, queries=1, keys=length)
    cover = options.coverage_penalty != 0
    start = model.config.decoder_start_token_id
    first = torch.full((batch,), start, device=encoded.device)
    compiled = model.compiled_steps
    if compiled is None and stays_on_device(encoded.device, options):
        fixed = TransformerSteps(model, encoded, mask, cover=cover)
        return search_on_device(fixed, first, options, prefixes)
    steps = compiled if compiled is not None and compiled.is_current else model
    state = steps.start(encoded, mask, cover=cover)
    return search(steps.step, state, first, options, item_seeds, prefixes)


class TransformerSteps:
    """Decoding steps of a Transformer with a fixed-size KV cache; see ``StaticDecoder``.

    Args:
        model: the model that generates.
        encoded: output of the encoder. Shape (B, E, D).
        mask: True for a source token, False for padding. Shape (B, 1, 1, E).
        cover: whether to track coverage.
    """

    def __init__(
        self, model: "Transformer", encoded: Tensor, mask: Tensor | None, *, cover: bool
    ) -> None:
        self.model = model
        self.vocabulary = model.config.decoder_vocab_size
        self.prompt_mask = torch.zeros(len(encoded), 0, dtype=torch.bool, device=encoded.device)
        self.coverage = None
        if cover:
            before = initial_coverage(encoded, None if mask is None else mask[:, 0, 0])
            self.coverage = before.to(torch.promote_types(before.dtype, encoded.dtype))
        decoder = model.decoder
        self.cache = FixedCache(
            nodes=no_nodes(decoder, len(encoded)),
            crosses=decoder.cross_keys_and_values(encoded),
            cross_mask=mask,
        )

    def step(self, newest: StepInput) -> tuple[Tensor, Tensor | None]:
        """Return the next tokens' logits and the attention; see ``StaticDecoder.step``."""
        model = self.model
        output: StackOutput = model.decoder(
            model.embed(model.target_table, newest.tokens, newest.num_tokens),  # (B, W, D)
            Context(mask=newest.node_mask[:, None], cross_mask=self.cache.cross_mask),
            past=self.cache.blocks(newest.nodes),
            weights_of=() if self.coverage is None else (model.alignment_layer,),
        )
        attended = None
        if self.coverage is not None:
            assert output.cross_attentions is not None
            attended = output.cross_attentions[0].mean(1)  # (B, W, E)
        return model.score(output.hidden), attended

    def grow(self, nodes: int) -> None:
        """Make room for ``nodes`` nodes in the cache."""
        self.cache.make_room(nodes)

    def keep_nodes(self, nodes: Tensor) -> None:
        """Keep only the given nodes of each item; see ``StaticDecoder.keep_nodes``."""
        self.cache.keep_nodes(nodes)

    def keep(self, items: Tensor) -> None:
        """Keep only the given items; see ``StaticDecoder.keep``."""
        self.cache.keep(items)
