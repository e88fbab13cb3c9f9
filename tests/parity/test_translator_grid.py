"""Every pair of the Transformer's options, in values and gradients.

The reference has no chunks, and loses no heads: it is asked for whole feed-forward parts, and for
masks that are 0 for heads that ours has lost. All else is at its default, so a failure names the
pair that is broken.
"""

import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from torch import Tensor, nn

from heedful.models import Transformer, TransformerConfig
from heedful.models.transformer import names

B, E, S, V, PAD, D = 3, 7, 5, 20, 19, 12
LAYERS = {"encoder": 2, "decoder": 3}
HEADS = {"encoder": 4, "decoder": 3}
SIZES: dict[str, Any] = {
    "vocab_size": V,
    "d_model": D,
    "encoder_layers": LAYERS["encoder"],
    "decoder_layers": LAYERS["decoder"],
    "encoder_attention_heads": HEADS["encoder"],
    "decoder_attention_heads": HEADS["decoder"],
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 14,
    "max_position_embeddings": 8,
    "dropout": 0.0,
    "pad_token_id": PAD,
    "eos_token_id": 0,
    "decoder_start_token_id": PAD,
}
MASKS = {"head_mask": "encoder", "decoder_head_mask": "decoder", "cross_attn_head_mask": "decoder"}
ATTENTIONS = {
    "encoder.*.self_attn": "head_mask",
    "decoder.*.self_attn": "decoder_head_mask",
    "decoder.*.encoder_attn": "cross_attn_head_mask",
}
PRUNED = {
    "head_mask": {0: [1, 3], 1: [2]},
    "decoder_head_mask": {1: [0, 1]},
    "cross_attn_head_mask": {0: [1], 2: [0]},
}
KINDS = ["none", "for a head", "for a block and head"]

OPTIONS: dict[str, list[Any]] = {
    "activation_function": ["relu", "swish"],
    "scale_embedding": [True, False],
    "tie_word_embeddings": [True, False],
    "share_encoder_decoder_embeddings": [True, False],
    "normalize_before": [False, True],
    "padding": [True, False],
    "labels": [True, False],
    "head_mask": KINDS,
    "decoder_head_mask": KINDS,
    "cross_attn_head_mask": KINDS,
    "pruned": [False, True],
    "chunk": [0, 2, 4],
    "checkpointing": [False, True],
    "attentions": [False, True],
    "hidden_states": [False, True],
}
"""The first of each is the default."""

MODEL = ("activation_function", "scale_embedding", "tie_word_embeddings")
DEFAULTS = {name: values[0] for name, values in OPTIONS.items()}
CASES = {
    "-".join(f"{name}={value}".replace(" ", "_") for name, value in changed.items()): changed
    for number in (1, 2)
    for some in itertools.combinations(OPTIONS, number)
    for chosen in itertools.product(*(OPTIONS[name][1:] for name in some))
    for changed in [dict(zip(some, chosen, strict=True))]
    # The reference's pre-norm model always shares its embeddings.
    if changed.keys() != {"normalize_before", "share_encoder_decoder_embeddings"}
}


def _models(reference: ModuleType, options: dict[str, Any]) -> tuple[Transformer, Any]:
    values = SIZES | {name: options[name] for name in MODEL}
    values["share_encoder_decoder_embeddings"] = options["share_encoder_decoder_embeddings"]
    before = options["normalize_before"]
    ours = Transformer(
        TransformerConfig(
            **values, normalize_before=before, chunk_size_feed_forward=options["chunk"]
        )
    )
    kind, model = ("Marian", "MarianMTModel")
    if before:
        kind, model = ("Pegasus", "PegasusForConditionalGeneration")
    config = getattr(reference, f"{kind}Config")(**values, attn_implementation="eager")
    theirs = getattr(reference, model)(config)
    torch.manual_seed(0)
    for name, parameter in theirs.named_parameters():
        if "embed_positions" not in name:
            nn.init.normal_(parameter, float("layer_norm.weight" in name), std=0.3)
    nn.init.normal_(theirs.final_logits_bias)
    expected = ours.state_dict()
    ours.load_state_dict(names.from_file(theirs.state_dict(), expected, ours.config, Path()))
    if options["pruned"]:
        ours.prune_heads(
            PRUNED["head_mask"],
            decoder_heads=PRUNED["decoder_head_mask"],
            cross_attn_heads=PRUNED["cross_attn_head_mask"],
        )
    ours.gradient_checkpointing = options["checkpointing"]
    return ours.double().train(), theirs.double().train()


def _batch(options: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(1)
    batch: dict[str, Any] = {"input_ids": torch.randint(PAD, (B, E))}
    if options["padding"]:
        batch["attention_mask"] = (torch.arange(E) < torch.tensor([[E], [4], [1]])).long()
    ids = torch.randint(PAD, (B, S))
    if options["labels"]:
        lengths = torch.tensor([[S], [3], [2]])
        batch["labels"] = ids.masked_fill(torch.arange(S) >= lengths, -100)
    else:
        batch["decoder_input_ids"] = ids
    for name, part in MASKS.items():
        if options[name] != "none":
            shape = (LAYERS[part], HEADS[part])
            shape = shape if options[name] == "for a block and head" else shape[1:]
            batch[name] = torch.rand(shape, dtype=torch.float64).requires_grad_()
    return batch


def _named(output: Any) -> dict[str, Tensor]:
    """Name every tensor that a model returns."""
    named = {}
    for name in output.keys():  # noqa: SIM118 (an output is no dict)
        value = output[name]
        if isinstance(value, Tensor) and name != "positions":
            named[name] = value
        elif name.endswith(("attentions", "hidden_states")):
            named |= {f"{name} {number}": tensor for number, tensor in enumerate(value)}
    return named


def _kept(mask: str, block: int) -> list[int]:
    gone = PRUNED[mask].get(block, [])
    return [head for head in range(HEADS[MASKS[mask]]) if head not in gone]


def _expected(theirs: Any, batch: dict[str, Any], options: dict[str, Any]) -> dict[str, Tensor]:
    """Run the reference, and name every tensor that ours should return."""
    batch = dict(batch)
    for name, part in MASKS.items():
        shape = (LAYERS[part], HEADS[part])
        if name in batch:
            batch[name] = batch[name].expand(shape)
        if options["pruned"]:
            left = torch.zeros(shape, dtype=torch.float64)
            for block in range(LAYERS[part]):
                left[block, _kept(name, block)] = 1
            batch[name] = batch.get(name, torch.ones(shape)) * left
    output = theirs(
        **batch,
        use_cache=False,
        output_attentions=options["attentions"],
        output_hidden_states=options["hidden_states"],
    )
    expected = _named(output)
    if options["labels"]:
        expected["logits"] = expected["logits"][batch["labels"] != -100]
    if options["pruned"]:
        for kind, mask in zip(("encoder", "decoder", "cross"), MASKS, strict=True):
            for block in range(LAYERS[MASKS[mask]]):
                if (name := f"{kind}_attentions {block}") in expected:
                    expected[name] = expected[name][:, _kept(mask, block)]
    return expected


def _gradients(inputs: dict[str, Tensor], outputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Backpropagate from everything that was returned."""
    dice = torch.Generator().manual_seed(2)
    parts = [
        (outputs[name] * torch.randn(outputs[name].shape, generator=dice)).sum()
        for name in sorted(outputs)
    ]
    gradients = torch.autograd.grad(parts, list(inputs.values()))
    return dict(zip(inputs, gradients, strict=True))


def _without_pruned(gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    """Leave out the values of our pruned heads."""
    left = dict(gradients)
    for pattern, mask in ATTENTIONS.items():
        stack, attention = pattern.split(".*.")
        width = D // HEADS[stack]
        for block in range(LAYERS[stack]):
            rows = torch.arange(D).view(-1, width)[_kept(mask, block)].flatten()
            part = f"model.{stack}.layers.{block}.{attention}"
            for name in ("q_proj.weight", "q_proj.bias", "k_proj.weight", "k_proj.bias"):
                left[f"{part}.{name}"] = left[f"{part}.{name}"][rows]
            for name in ("v_proj.weight", "v_proj.bias"):
                left[f"{part}.{name}"] = left[f"{part}.{name}"][rows]
            left[f"{part}.out_proj.weight"] = left[f"{part}.out_proj.weight"][:, rows]
    return left


def _check_equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, right in expected.items():
        assert_equal(found[name], right, name)


@pytest.mark.parametrize("changed", CASES.values(), ids=list(CASES))
def test_every_option_and_pair_equals_the_reference(
    reference: ModuleType, changed: dict[str, Any]
) -> None:
    options = DEFAULTS | changed
    ours, theirs = _models(reference, options)
    batch = _batch(options)
    wanted = {
        "return_attentions": options["attentions"],
        "return_hidden_states": options["hidden_states"],
    }
    found, whole = _named(ours(**batch, **wanted)), _expected(theirs, batch, options)
    expected = dict(whole)
    if options["labels"] and not any(wanted.values()):
        del expected["encoder_last_hidden_state"]  # ours has left its padding out
    _check_equal(found, expected)

    masks = {name: batch[name] for name in MASKS if name in batch}
    weights = {name: x for name, x in theirs.named_parameters() if x.requires_grad}
    right = _gradients(masks | weights, expected)
    if options["pruned"]:
        right = _without_pruned(right)
    gradients = _gradients(masks | names.to_file(dict(ours.named_parameters()), ours.config), found)
    for name in right:
        if "shared" in name or "embed_tokens" in name:
            # Padding is never written, and what it looks like as a score not learnt.
            assert not gradients[name][PAD].any()
            right[name][PAD] = 0
    _check_equal(gradients, right)

    with torch.no_grad():  # the fused kernel, and nothing to compute again
        _check_equal(_named(ours.eval()(**batch, **wanted)), whole)
