"""An encoder's options in pairs, in training and evaluation, in values and gradients.

The reference has most pairs. Where it lacks one, or is wrong in it, ``_expected`` says what it is
asked for instead; all else is at its default, so a failure names the pair that is broken. What a
family has not, or has beside the others, is in its row of ``families.ROWS``.
"""

import itertools
import os
import random
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from tests.parity.families import (
    ROWS,
    B,
    D,
    H,
    L,
    S,
    V,
    by_file_name,
    pair_of_models,
    random_positions,
    same_random_weights,
)
from torch import Tensor, nn

from heedful.layers.cache import Cache
from heedful.models import FAMILIES
from heedful.models.model import Model
from heedful.models.outputs import BertModelOutput

E, PAST, MORE_WORDS = 5, 3, 55
PRUNED = {0: [1, 3], 1: [2]}

OPTIONS: dict[str, list[Any]] = {
    "words": ["input_ids", "inputs_embeds"],
    "resized_vocabulary": [False, True],
    "mask": ["none", "row a sequence", "row a query"],
    "token_type_ids": [False, True],
    "position_ids": [False, True],
    "positions": ["absolute", "relative_key", "relative_key_query"],
    "decoder": [False, True],
    "encoder": ["none", "whole", "row a sequence", "row a query"],
    "cache": ["none", "returned", "continued"],
    "head_mask": ["none", "for a head", "for a block and head"],
    "pruned": [False, True],
    "chunk": [0, 3, 4],
    "checkpointing": [False, True],
    "pooler": [True, False],
    "output_attentions": [False, True],
    "output_hidden_states": [False, True],
    "only_first": [False, True],
}
"""The first of each is the default."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """One value of each of ``OPTIONS``."""

    words: str
    resized_vocabulary: bool
    mask: str
    token_type_ids: bool
    position_ids: bool
    positions: str
    decoder: bool
    encoder: str
    cache: str
    head_mask: str
    pruned: bool
    chunk: int
    checkpointing: bool
    pooler: bool
    output_attentions: bool
    output_hidden_states: bool
    only_first: bool
    family: str
    changes: dict[str, Any]
    """Of the keys in ``Row.config_options``."""
    extra_ids: tuple[str, ...]
    """Those of ``Row.extra_ids`` that are given."""

    @property
    def is_decoder(self) -> bool:
        """Only a decoder has a cache or an encoder."""
        return self.decoder or self.encoder != "none" or self.cache != "none"

    @property
    def relative_and_cached(self) -> bool:
        """Whether the reference counts distances from the last key to all queries, wrongly."""
        return self.positions != "absolute" and self.cache != "none"


SWEEP = "HEEDFUL_SWEEP" in os.environ
"""Whether to test every pair in training and in evaluation, rather than in one of them."""
OTHER_CPU = os.environ.get("ATEN_CPU_CAPABILITY") == "avx2"
"""Whether this is ``make test-other-cpu``."""


def _cases(family: str) -> dict[str, tuple[Options, bool]]:
    """Return the options of a family in pairs, each with whether it is tested in training.

    Where a row does not ask for every pair, there is each value alone, and a sample of the pairs.
    So it is for all families on another CPU.
    """
    row = ROWS[family]
    options = {
        name: [value for value in values if f"{name}={value}" not in row.lacks]
        for name, values in OPTIONS.items()
        if name not in row.lacks
    }
    options |= row.config_options | {name: [False, True] for name in row.extra_ids}
    pairs = [
        dict(zip(pair, chosen, strict=True))
        for pair in itertools.combinations(options, 2)
        for chosen in itertools.product(*(options[name][1:] for name in pair))
    ]
    every_pair = row.every_pair and not OTHER_CPU
    if not every_pair:
        alone = [{name: value} for name, values in options.items() for value in values[1:]]
        pairs = [{}, *alone, *random.Random(0).sample(pairs, 40)]
    return {
        "-".join([family, *(f"{name}={value}" for name, value in chosen.items()), str(training)]): (
            _options(family, chosen),
            training,
        )
        for number, chosen in enumerate(pairs)
        for training in ([False, True] if every_pair and SWEEP else [number % 2 == 0])
    }


def _options(family: str, chosen: dict[str, Any]) -> Options:
    row = ROWS[family]
    defaults = {name: values[0] for name, values in OPTIONS.items()}
    changes = {name: chosen[name] for name in row.config_options if name in chosen}
    return Options(
        **(defaults | {name: value for name, value in chosen.items() if name in OPTIONS}),
        family=family,
        changes=changes,
        extra_ids=tuple(name for name in row.extra_ids if chosen.get(name)),
    )


CASES = {
    name: case
    for family, row in ROWS.items()
    if not row.own_grid
    for name, case in _cases(family).items()
}


def _models(reference: ModuleType, options: Options) -> tuple[Model, nn.Module]:
    row = ROWS[options.family]
    changes = dict(options.changes)
    if "positions" not in row.lacks:
        changes["position_embedding_type"] = options.positions
    if "decoder" not in row.lacks:
        changes["is_decoder"] = options.is_decoder
    if "encoder" not in row.lacks:
        changes["add_cross_attention"] = options.encoder != "none"
    ours, theirs = pair_of_models(
        reference,
        options.family,
        FAMILIES[options.family].models["body"],
        add_pooling_layer=None if "pooler" in row.lacks else options.pooler,
        chunk=options.chunk,
        **changes,
    )
    if options.resized_vocabulary:
        theirs.resize_token_embeddings(MORE_WORDS, mean_resizing=False)
        ours.resize_token_embeddings(MORE_WORDS)
        same_random_weights(ours, theirs)
    ours.gradient_checkpointing = options.checkpointing
    if options.pruned:
        pruned = {block: heads for block, heads in PRUNED.items() if block < ours.config.num_blocks}
        theirs.prune_heads(pruned)
        ours.prune_heads(pruned)
    return ours.double(), theirs.double()


def _mask(kind: str, keys: int) -> Tensor | None:
    if kind == "row a sequence":
        return (torch.arange(keys) < torch.tensor([[keys], [keys - 2], [1]])).long()
    if kind == "row a query":
        mask = torch.randint(2, (B, S, keys))
        mask[:, :, 0] = 1  # the reference has no zeros for a query with nothing to attend to
        return mask
    return None


def _batch(options: Options) -> dict[str, Any]:
    """Make the arguments of a call; only some are tensors."""
    torch.manual_seed(1)
    batch: dict[str, Any] = {}
    ids = torch.randint(MORE_WORDS if options.resized_vocabulary else V, (B, S))
    width = (ROWS[options.family].sizes | options.changes).get("embedding_size", D)
    vectors = torch.randn(B, S, width, dtype=torch.float64, requires_grad=True)
    batch[options.words] = ids if options.words == "input_ids" else vectors
    batch["attention_mask"] = _mask(options.mask, S + PAST * (options.cache == "continued"))
    if options.token_type_ids:
        batch["token_type_ids"] = torch.randint(ROWS[options.family].types, (B, S))
    if options.position_ids:
        batch["position_ids"] = random_positions(options.family, (B, S))
    for name in options.extra_ids:
        batch[name] = torch.randint(ROWS[options.family].extra_ids[name], (B, S))
    if options.encoder != "none":
        encoded = torch.randn(B, E, D, dtype=torch.float64, requires_grad=True)
        batch["encoder_hidden_states"] = encoded
        batch["encoder_attention_mask"] = _mask(options.encoder, E)
    if options.head_mask != "none":
        blocks = options.changes.get("num_hidden_groups", L)  # those with weights of their own
        shape = (H,) if options.head_mask == "for a head" else (blocks, H)
        batch["head_mask"] = torch.rand(shape, dtype=torch.float64).round(decimals=1)
        batch["head_mask"].requires_grad_()
    if "cache" not in ROWS[options.family].lacks:
        batch["use_cache"] = options.cache != "none"
    for name in ("output_attentions", "output_hidden_states"):
        batch[name] = getattr(options, name)
    return {name: value for name, value in batch.items() if value is not None}


PREFIX = torch.tensor([[3, 4, 9], [5, 6, 10], [7, 8, 11]])


def _with_past(model: nn.Module, batch: dict[str, Any], options: Options) -> dict[str, Any]:
    if options.cache != "continued":
        return batch
    shared = ("encoder_hidden_states", "head_mask")
    first = {name: batch[name] for name in shared if name in batch}
    if options.encoder == "row a sequence":
        first["encoder_attention_mask"] = batch["encoder_attention_mask"]
    batch = batch | {"past_key_values": model(PREFIX, **first, use_cache=True).past_key_values}
    if options.family == "electra":  # whose reference forgets what is cached without a mask
        batch.setdefault("attention_mask", torch.ones(B, PAST + S, dtype=torch.long))
    return batch


def _found(ours: Model, batch: dict[str, Any], options: Options) -> dict[str, Any]:
    """Run our model, and name every tensor that it returns."""
    output: BertModelOutput = ours(
        **_with_past(ours, batch, options), only_first=options.only_first, output_kernels=True
    )
    found = _named(output)
    if isinstance(output.past_key_values, Cache) and not options.relative_and_cached:
        for number, block in enumerate(output.past_key_values.blocks):
            own, cross = block.self_attention, block.cross_attention
            found |= {f"key {number}": own.key, f"value {number}": own.value}
            if cross is not None:
                found |= {f"cross key {number}": cross.key, f"cross value {number}": cross.value}
    assert output.kernels is not None
    return found | {"kernels": output.kernels}


def _named(output: Any) -> dict[str, Any]:
    found = {}
    for name in output.keys():  # noqa: SIM118 (an output is no dict)
        value = output[name]
        if name in ("past_key_values", "kernels"):
            continue
        if isinstance(value, tuple):
            found |= {f"{name} {number}": tensor for number, tensor in enumerate(value)}
        else:
            found[name] = value
    return found


def _expected(theirs: nn.Module, batch: dict[str, Any], options: Options) -> dict[str, Any]:
    """Run the reference, and name every tensor that ours should return."""
    pruned_and_masked = options.pruned and options.head_mask != "none"
    if pruned_and_masked:
        # The reference takes no mask of all heads once some are pruned.
        rows = batch["head_mask"].expand(L, H)
        kept = [[head for head in range(H) if head not in PRUNED[block]] for block in range(L)]
        masks = [rows[block, kept[block], None, None] for block in range(L)]
        theirs.get_head_mask = lambda *_: masks
    if options.relative_and_cached:
        expected = _whole(theirs, batch, options)
    else:
        given = _with_past(theirs, batch, options)
        padding = ROWS[options.family].positions_after
        if padding is not None and options.words == "inputs_embeds":
            # The reference counts the positions of vectors from the first, whatever is cached.
            first = padding + 1 + PAST * (options.cache == "continued")
            given.setdefault("position_ids", torch.arange(first, first + S)[None])
        output = theirs(**given)
        expected = _named(output)
        if options.cache != "none":
            caches = output.past_key_values
            for number in range(L):
                own = getattr(caches, "self_attention_cache", caches).layers[number]
                expected |= {f"key {number}": own.keys, f"value {number}": own.values}
                if options.encoder != "none":
                    cross = caches.cross_attention_cache.layers[number]
                    expected |= {f"cross key {number}": cross.keys}
                    expected |= {f"cross value {number}": cross.values}
    if options.only_first:
        for name, tensor in expected.items():
            if name in ("last_hidden_state", f"hidden_states {L}"):
                expected[name] = tensor[:, :1]
            elif name in (f"attentions {L - 1}", f"cross_attentions {L - 1}"):
                expected[name] = tensor[:, :, :1]
    return expected


def _whole(theirs: nn.Module, batch: dict[str, Any], options: Options) -> dict[str, Any]:
    """Ask for all tokens at once."""
    start = PAST if options.cache == "continued" else 0
    given = batch | {"use_cache": False}
    if start:
        prefix = theirs.get_input_embeddings()(PREFIX)
        vectors = given.pop("inputs_embeds", None)
        if vectors is None:
            vectors = theirs.get_input_embeddings()(given.pop("input_ids"))
        given["inputs_embeds"] = torch.cat([prefix, vectors], 1)
    expected = _named(theirs(**given))
    expected["last_hidden_state"] = expected["last_hidden_state"][:, start:]
    if "pooler_output" in expected:
        expected["pooler_output"] = theirs.pooler(expected["last_hidden_state"])
    return expected


def _keep_text(outputs: dict[str, Any], batch: dict[str, Any], options: Options) -> None:
    """Leave out the outputs for padding, if those of a family's reference are meaningless."""
    if not ROWS[options.family].needs_text or "attention_mask" not in batch:
        return
    real = batch["attention_mask"].bool()
    for name, tensor in outputs.items():
        if name != "kernels":
            rows = tensor.transpose(1, 2) if "attentions" in name else tensor
            outputs[name] = rows[real[:, : rows.shape[1]]]


def _check_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        assert_equal(found[name], right, name)


def _gradients(
    model: nn.Module, outputs: dict[str, Any], batch: dict[str, Any]
) -> dict[str, Tensor | None]:
    """Backpropagate from everything that was returned."""
    dice = torch.Generator().manual_seed(2)
    parts = [
        (outputs[name] * torch.randn(outputs[name].shape, generator=dice)).sum()
        for name in sorted(outputs)
    ]
    inputs = {name: x for name, x in model.named_parameters() if x.requires_grad}
    inputs |= {name: x for name, x in batch.items() if isinstance(x, Tensor) and x.requires_grad}
    found = torch.autograd.grad(parts, list(inputs.values()), allow_unused=True)
    return dict(zip(inputs, found, strict=True))


@pytest.mark.parametrize(("options", "training"), CASES.values(), ids=list(CASES))
def test_options_in_pairs_equal_the_reference(
    reference: ModuleType, options: Options, training: bool
) -> None:
    ours, theirs = _models(reference, options)
    ours.train(training)
    theirs.train(training)
    batch = _batch(options)
    found, expected = _found(ours, batch, options), _expected(theirs, batch, options)
    _keep_text(found, batch, options)
    _keep_text(expected, batch, options)
    ran = L * (1 if options.encoder == "none" else 2)
    assert len(found.pop("kernels")) == ran
    _check_equal(found, expected)
    gradients = by_file_name(ours, _gradients(ours, found, batch))
    _check_equal(gradients, _gradients(theirs, expected, batch))
    with torch.no_grad():
        fused = _found(ours, batch, options)
    talks = options.changes.get("talking_head", False)
    kernel = "plain" if options.output_attentions or talks else "fused"
    assert fused.pop("kernels") == (kernel,) * ran
    _keep_text(fused, batch, options)
    _check_equal(fused, expected)
