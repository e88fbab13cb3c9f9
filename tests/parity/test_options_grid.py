"""Every pair of an encoder's options, in training and evaluation, in values and gradients.

The reference has most pairs. Where it lacks one, or is wrong in it, ``_expected`` says what it is
asked for instead; all else is at its default, so a failure names the pair that is broken.
"""

import itertools
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from torch import Tensor, nn

from heedful import models
from heedful.layers.cache import Cache
from heedful.models import BertModel
from heedful.models.outputs import BertModelOutput

B, S, E, PAST, D, H, L = 3, 6, 5, 3, 16, 4, 2
SIZES: dict[str, Any] = {
    "vocab_size": 20,
    "hidden_size": D,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
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

    @property
    def is_decoder(self) -> bool:
        """Only a decoder has a cache or an encoder."""
        return self.decoder or self.encoder != "none" or self.cache != "none"

    @property
    def relative_and_cached(self) -> bool:
        """Whether the reference counts distances from the last key to all queries, wrongly."""
        return self.positions != "absolute" and self.cache != "none"


DEFAULTS = {name: values[0] for name, values in OPTIONS.items()}
PAIRS = {
    "-".join(f"{name}={values[name]}".replace(" ", "_") for name in pair): values
    for pair in itertools.combinations(OPTIONS, 2)
    for chosen in itertools.product(*(OPTIONS[name][1:] for name in pair))
    for values in [DEFAULTS | dict(zip(pair, chosen, strict=True))]
}


def _models(reference: ModuleType, family: str, options: Options) -> tuple[BertModel, nn.Module]:
    values = {
        **SIZES,
        "position_embedding_type": options.positions,
        "is_decoder": options.is_decoder,
        "add_cross_attention": options.encoder != "none",
    }
    divides = options.chunk and S % options.chunk == 0  # others the reference does not take
    theirs = getattr(reference, f"{family}Model")(
        getattr(reference, f"{family}Config")(
            **values,
            chunk_size_feed_forward=options.chunk if divides else 0,
            attn_implementation="eager",
        ),
        add_pooling_layer=options.pooler,
    )
    ours: BertModel = getattr(models, f"{family}Model")(
        getattr(models, f"{family}Config")(**values, chunk_size_feed_forward=options.chunk),
        add_pooling_layer=options.pooler,
    )
    if options.resized_vocabulary:
        theirs.resize_token_embeddings(25, mean_resizing=False)
        ours.resize_token_embeddings(25)
    ours.gradient_checkpointing = options.checkpointing
    torch.manual_seed(0)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.3)  # zeros and ones would hide mistakes
    ours.load_state_dict(theirs.state_dict())  # strict: the names are the same
    if options.pruned:
        theirs.prune_heads(PRUNED)
        ours.prune_heads(PRUNED)
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
    """Make the arguments of a call, those of which only some are tensors."""
    torch.manual_seed(1)
    batch: dict[str, Any] = {}
    ids = torch.randint(25 if options.resized_vocabulary else SIZES["vocab_size"], (B, S))
    vectors = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    batch[options.words] = ids if options.words == "input_ids" else vectors
    batch["attention_mask"] = _mask(options.mask, S + PAST * (options.cache == "continued"))
    if options.token_type_ids:
        batch["token_type_ids"] = torch.randint(2, (B, S))
    if options.position_ids:
        batch["position_ids"] = torch.randint(SIZES["max_position_embeddings"], (B, S))
    if options.encoder != "none":
        encoded = torch.randn(B, E, D, dtype=torch.float64, requires_grad=True)
        batch["encoder_hidden_states"] = encoded
        batch["encoder_attention_mask"] = _mask(options.encoder, E)
    if options.head_mask != "none":
        shape = (H,) if options.head_mask == "for a head" else (L, H)
        batch["head_mask"] = torch.rand(shape, dtype=torch.float64).round(decimals=1)
        batch["head_mask"].requires_grad_()
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
    return batch | {"past_key_values": model(PREFIX, **first, use_cache=True).past_key_values}


def _found(ours: BertModel, batch: dict[str, Any], options: Options) -> dict[str, Any]:
    """Run our model, and give every tensor that it returns a name."""
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
    """Run the reference, and give every tensor that ours should return a name."""
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
        if theirs.config.model_type == "roberta" and options.words == "inputs_embeds":
            # The reference counts the positions of vectors from the first, whatever is cached.
            first = theirs.config.pad_token_id + 1 + PAST * (options.cache == "continued")
            given.setdefault("position_ids", torch.arange(first, first + S)[None])
        output = theirs(**given)
        expected = _named(output)
        if options.cache != "none":
            caches = output.past_key_values
            for number in range(L):
                own = caches.self_attention_cache.layers[number]
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
    last = expected["last_hidden_state"][:, start:]
    return expected | {"last_hidden_state": last, "pooler_output": theirs.pooler(last)}


def _check_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        assert_equal(found[name], right, name)


def _gradients(
    model: nn.Module, outputs: dict[str, Any], batch: dict[str, Any]
) -> dict[str, Tensor | None]:
    """Send back a gradient from everything that was returned."""
    dice = torch.Generator().manual_seed(2)
    parts = [
        (outputs[name] * torch.randn(outputs[name].shape, generator=dice)).sum()
        for name in sorted(outputs)
    ]
    inputs = dict(model.named_parameters())
    inputs |= {name: x for name, x in batch.items() if isinstance(x, Tensor) and x.requires_grad}
    found = torch.autograd.grad(parts, list(inputs.values()), allow_unused=True)
    return dict(zip(inputs, found, strict=True))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("family", "training"), [("Bert", False), ("Bert", True), ("Roberta", True)]
)
@pytest.mark.parametrize("values", PAIRS.values(), ids=list(PAIRS))
def test_every_pair_of_options_equals_the_reference(
    reference: ModuleType, family: str, values: dict[str, Any], training: bool
) -> None:
    options = Options(**values)
    ours, theirs = _models(reference, family, options)
    ours.train(training)
    theirs.train(training)
    batch = _batch(options)
    found, expected = _found(ours, batch, options), _expected(theirs, batch, options)
    ran = L * (1 if options.encoder == "none" else 2)
    assert len(found.pop("kernels")) == ran
    _check_equal(found, expected)
    _check_equal(_gradients(ours, found, batch), _gradients(theirs, expected, batch))
    with torch.no_grad():
        fused = _found(ours, batch, options)
    kernel = "plain" if options.output_attentions else "fused"
    assert fused.pop("kernels") == (kernel,) * ran
    _check_equal(fused, expected)
