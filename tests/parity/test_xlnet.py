"""XLNet's streams, orders, memory and pointer equal the reference's, in values and gradients."""

import itertools
import random
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from tests.parity.families import D, H, L, S, V, by_file_name, pair_of_models, same_random_weights
from torch import Tensor

B, M, P = 4, 5, 3
"""Sequences (an even number, to be read both ways), remembered tokens, predicted ones."""

OPTIONS: dict[str, list[Any]] = {
    "words": ["input_ids", "inputs_embeds"],
    "resized_vocabulary": [False, True],
    "padding": ["none", "attention_mask", "input_mask"],
    "token_type_ids": [False, True],
    "perm_mask": [False, True],
    "target_mapping": ["none", "of some", "of fewer in a row"],
    "mems": ["none", "returned", "continued"],
    "head_mask": ["none", "for a head", "for a block and head"],
    "attn_type": ["bi", "uni"],
    "same_length": [False, True],
    "clamp_len": [-1, 3],
    "bi_data": [False, True],
    "mem_len": [None, 0, 4, 9],
    "reuse_len": [None, 0, 3],
    "untie_r": [True, False],
    "ff_activation": ["gelu_new", "relu"],
    "layer_norm_eps": [1e-12, 1e-5],
    "chunk": [0, 3],
    "checkpointing": [False, True],
    "output_attentions": [False, True],
    "output_hidden_states": [False, True],
}
"""The first of each is the default."""

CONFIG = (
    *("attn_type", "same_length", "clamp_len", "bi_data", "mem_len", "reuse_len", "untie_r"),
    *("ff_activation", "layer_norm_eps"),
)
MORE_WORDS = 55

MASKS = {"padding", "perm_mask"}


def _cases() -> dict[str, tuple[dict[str, Any], bool]]:
    """Return each value alone and a sample of the pairs, in training and in evaluation."""
    alone = [{name: value} for name, values in OPTIONS.items() for value in values[1:]]
    pairs = [
        dict(zip(names, chosen, strict=True))
        for names in itertools.combinations(OPTIONS, 2)
        for chosen in itertools.product(*(OPTIONS[name][1:] for name in names))
    ]
    # The reference cannot put masks of texts together with that of what comes later.
    pairs = [pair for pair in pairs if "attn_type" not in pair or not pair.keys() & MASKS]
    sample = [{}, *alone, *random.Random(0).sample(pairs, 60)]
    return {
        "-".join([*(f"{name}={value}" for name, value in chosen.items()), str(turn % 2 == 0)]): (
            {name: values[0] for name, values in OPTIONS.items()} | chosen,
            turn % 2 == 0,
        )
        for turn, chosen in enumerate(sample)
    }


CASES = _cases()


def _widened(theirs: Any) -> Any:
    """Keep the reference's distance embeddings in float64, which its second stream needs."""
    body = getattr(theirs, "transformer", theirs)
    narrow = body.relative_positional_encoding
    body.relative_positional_encoding = lambda *size, **more: narrow(*size, **more).double()
    return theirs


def _models(reference: ModuleType, name: str, training: bool, **changes: Any) -> tuple[Any, Any]:
    ours, theirs = pair_of_models(reference, "xlnet", name, training=training, **changes)
    return ours, _widened(theirs)


def _order() -> Tensor:
    """Mask later tokens of a random order from each token, but the first token from none."""
    turns = torch.rand(B, S).argsort(1)
    hidden = turns[:, :, None] <= turns[:, None]
    hidden[:, :, 0] = False  # the reference has no zeros for a query with nothing to attend to
    return hidden.double()


def _mapping(kind: str) -> Tensor | None:
    if kind == "none":
        return None
    mapping = torch.zeros(B, P, S, dtype=torch.float64)
    for row in mapping:
        row[range(P), torch.randperm(S - 1)[:P] + 1] = 1
    if kind == "of fewer in a row":
        mapping[1:, 2] = 0
    return mapping


def _batch(options: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(1)
    batch: dict[str, Any] = {}
    vectors = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    pieces = MORE_WORDS if options["resized_vocabulary"] else V
    words = {"input_ids": torch.randint(pieces, (B, S)), "inputs_embeds": vectors}
    batch[options["words"]] = words[options["words"]]
    real = (torch.arange(S) < torch.tensor([[S], [S - 2], [S], [2]])).double()
    if options["padding"] != "none":
        of_tokens = options["padding"] == "attention_mask"
        batch[options["padding"]] = real if of_tokens else 1 - real
    if options["token_type_ids"]:
        batch["token_type_ids"] = torch.randint(3, (B, S))
    batch["perm_mask"] = _order() if options["perm_mask"] else None
    batch["target_mapping"] = _mapping(options["target_mapping"])
    if options["mems"] == "continued":
        batch["mems"] = tuple(torch.randn(M, B, D, dtype=torch.float64) for _ in range(L))
    if options["head_mask"] != "none":
        shape = (H,) if options["head_mask"] == "for a head" else (L, H)
        batch["head_mask"] = torch.rand(shape, dtype=torch.float64, requires_grad=True)
    for name in ("output_attentions", "output_hidden_states"):
        batch[name] = options[name]
    batch["use_mems"] = options["mems"] != "none"
    return {name: value for name, value in batch.items() if value is not None}


def _named(output: Any, batch: dict[str, Any]) -> dict[str, Tensor]:
    """Name every tensor that a model returns."""
    tensors = {}
    for name in output.keys():  # noqa: SIM118 (an output is no dict)
        value = output[name]
        if name == "kernels":
            continue
        if name == "attentions" and "target_mapping" in batch:
            for number, (content, query) in enumerate(value):
                if query.shape[2] == S:  # those of all places: the reference's
                    query = torch.einsum("bhst,bps->bhpt", query, batch["target_mapping"])
                tensors |= {f"content {number}": content, f"query {number}": query}
        elif isinstance(value, tuple):
            tensors |= {f"{name} {number}": tensor for number, tensor in enumerate(value)}
        else:
            tensors[name] = value
    return tensors


def _gradients(model: Any, outputs: dict[str, Tensor], batch: dict[str, Any]) -> dict[str, Any]:
    dice = torch.Generator().manual_seed(2)
    parts = [
        (outputs[name] * torch.randn(outputs[name].shape, generator=dice)).sum()
        for name in sorted(outputs)
        if outputs[name].requires_grad
    ]
    inputs = dict(model.named_parameters())
    inputs |= {name: x for name, x in batch.items() if isinstance(x, Tensor) and x.requires_grad}
    found = torch.autograd.grad(parts, list(inputs.values()), allow_unused=True)
    return dict(zip(inputs, found, strict=True))


def _assert_all_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        one = found[name]
        if right is None or one is None:  # what is not used, and what a zero comes back from
            rest = right if one is None else one
            assert rest is None or not rest.any(), name
        else:
            assert_equal(one, right, name)


@pytest.mark.parametrize(("options", "training"), CASES.values(), ids=list(CASES))
def test_options_in_pairs_equal_the_reference(
    reference: ModuleType, options: dict[str, Any], training: bool
) -> None:
    changes = {name: options[name] for name in CONFIG}
    ours, theirs = _models(reference, "XLNetModel", training, chunk=options["chunk"], **changes)
    if options["resized_vocabulary"]:
        theirs.resize_token_embeddings(MORE_WORDS, mean_resizing=False)
        ours.resize_token_embeddings(MORE_WORDS)
        same_random_weights(ours, theirs)
        ours, theirs = ours.double(), theirs.double()
    ours.gradient_checkpointing = options["checkpointing"]
    batch = _batch(options)
    found, expected = _named(ours(**batch), batch), _named(theirs(**batch), batch)
    _assert_all_equal(found, expected)
    gradients = by_file_name(ours, _gradients(ours, found, batch))
    _assert_all_equal(gradients, _gradients(theirs, expected, batch))
    with torch.no_grad():
        fused = ours(**batch, output_kernels=True)
    kernel = "plain" if options["output_attentions"] else "fused"
    assert fused.kernels == (kernel,) * L
    _assert_all_equal(_named(fused, batch), expected)


@pytest.mark.parametrize("same_length", [False, True])
def test_what_comes_later_is_hidden_beside_other_masks(
    reference: ModuleType, same_length: bool
) -> None:
    """The reference does that for one sequence at a time."""
    changes = {"attn_type": "uni", "same_length": same_length}
    ours, theirs = _models(reference, "XLNetModel", False, **changes)
    plain = {name: values[0] for name, values in OPTIONS.items()}
    chosen = {"padding": "attention_mask", "perm_mask": True, "mems": "continued"}
    batch = _batch(plain | chosen | {"token_type_ids": True})
    hidden = ours(**batch).last_hidden_state
    mems = batch.pop("mems")
    for row in range(B):
        one = {
            name: value[row : row + 1] if isinstance(value, Tensor) else value
            for name, value in batch.items()
        }
        alone = theirs(**one, mems=[memory[:, row : row + 1] for memory in mems])
        assert_equal(hidden[row : row + 1], alone.last_hidden_state, f"sequence {row}")
