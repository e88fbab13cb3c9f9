"""ALBERT's groups of layers equal the reference's, for any division into groups."""

from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from tests.parity.families import B, H, S, by_file_name, pair_of_models, random_ids

GROUPS: dict[str, dict[str, int]] = {
    "one block": {"num_hidden_layers": 3, "num_hidden_groups": 1},
    "blocks in a group": {"num_hidden_layers": 2, "num_hidden_groups": 1, "inner_group_num": 2},
    "blocks in groups": {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
    "groups of two sizes": {"num_hidden_layers": 5, "num_hidden_groups": 2},
    "a group for each layer": {"num_hidden_layers": 3, "num_hidden_groups": 3},
}
PRUNED = {0: [1, 3]}
CASES = {
    f"{name}, {heads}{', computed again' if recompute else ''}": (groups, heads, recompute)
    for name, groups in GROUPS.items()
    for heads in ("all heads", "masked", "pruned")
    for recompute in (False, True)
    if heads != "masked" or name != "groups of two sizes"  # whose masks the reference mixes up
}


def _batch(blocks: int, layers: int, *, masked: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make the arguments of our call and of the reference's, which takes a row for each layer."""
    torch.manual_seed(1)
    batch: dict[str, Any] = random_ids("albert", (B, S), everything=True)
    batch["attention_mask"] = (torch.arange(S) < torch.tensor([[S], [4], [1]])).long()
    batch["output_attentions"] = batch["output_hidden_states"] = True
    if not masked:
        return batch, batch
    mask = torch.rand(blocks, H, dtype=torch.float64)
    rows = torch.ones(layers, H, dtype=torch.float64)
    rows[:blocks] = mask  # it reads no others
    return batch | {"head_mask": mask}, batch | {"head_mask": rows}


@pytest.mark.parametrize(("groups", "heads", "recompute"), CASES.values(), ids=list(CASES))
def test_values_and_gradients(
    reference: ModuleType, groups: dict[str, int], heads: str, recompute: bool
) -> None:
    ours, theirs = pair_of_models(reference, "albert", "AlbertModel", training=True, **groups)
    ours.gradient_checkpointing = recompute
    if heads == "pruned":
        ours.prune_heads(PRUNED)
        theirs.prune_heads(PRUNED)
    layers = groups["num_hidden_layers"]
    batch, batch_of_theirs = _batch(ours.config.num_blocks, layers, masked=heads == "masked")
    output, expected = ours.double()(**batch), theirs.double()(**batch_of_theirs)
    assert len(output.hidden_states) == layers + 1
    assert len(output.attentions) == layers * groups.get("inner_group_num", 1)
    for name in ("last_hidden_state", "pooler_output"):
        assert_equal(output[name], expected[name], name)
    for name in ("hidden_states", "attentions"):
        for one, right in zip(output[name], expected[name], strict=True):
            assert_equal(one, right, name)
    for result in (output, expected):
        (result.last_hidden_state.square().sum() + result.attentions[-1].square().sum()).backward()
    gradients = by_file_name(ours, {name: x.grad for name, x in ours.named_parameters()})
    for name, parameter in theirs.named_parameters():
        assert_equal(gradients.pop(name), parameter.grad, name)
    assert gradients == {}
