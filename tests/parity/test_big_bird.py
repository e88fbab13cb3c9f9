"""BigBird reads long texts by blocks as the reference does, each text as if alone."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from tests.parity.families import V, by_file_name, pair_of_models
from torch import Tensor

SMALL = {"block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 64}
"""Up to 28 tokens are read as a whole."""
LARGE = {"block_size": 64, "num_random_blocks": 1}
"""The published plan of what is drawn is for texts of 1,024, 3,072 and 4,096 tokens."""
CASES: dict[str, tuple[dict[str, Any], Sequence[int]]] = {
    "whole": (SMALL, (28, 5)),
    "whole and by blocks": (SMALL, (29, 28, 64, 31)),
    "blocks of full length": (SMALL, (32, 32)),
    "part of a block": (SMALL, (33, 35)),
    "much drawn": (SMALL | {"num_random_blocks": 3}, (45, 64)),
    "no biases": (SMALL | {"use_bias": False, "rescale_embeddings": True}, (40,)),
    "all tokens": (SMALL | {"attention_type": "original_full"}, (64, 30)),
    "published": (LARGE | {"max_position_embeddings": 1024, "num_random_blocks": 3}, (1024,)),
    "published, of more": (LARGE | {"max_position_embeddings": 3100}, (1000,)),
}


def _batch(lengths: Sequence[int]) -> dict[str, Tensor]:
    torch.manual_seed(1)
    size = max(lengths)
    mask = torch.arange(size) < torch.tensor(lengths)[:, None]
    return {"input_ids": torch.randint(V, mask.shape), "attention_mask": mask.long()}


def _theirs(
    reference: ModuleType, state: dict[str, Tensor], training: bool, changes: dict[str, Any]
) -> Any:
    """Return a model of the reference that has not read anything."""
    _, theirs = pair_of_models(reference, "big_bird", "BigBirdModel", training=training, **changes)
    theirs.load_state_dict(state)
    return theirs


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("changes", "lengths"), CASES.values(), ids=list(CASES))
def test_values_and_gradients(
    reference: ModuleType, changes: dict[str, Any], lengths: Sequence[int], training: bool
) -> None:
    ours, theirs = pair_of_models(
        reference, "big_bird", "BigBirdModel", training=training, **changes
    )
    batch = _batch(lengths)
    found = ours(**batch)
    found.last_hidden_state.retain_grad()
    total = found.pooler_output.sum()
    states = theirs.state_dict()
    right: dict[str, Tensor] = {}
    for row, length in enumerate(lengths):
        alone = _theirs(reference, states, training, changes)
        expected = alone(**{name: ids[row : row + 1, :length] for name, ids in batch.items()})
        state = found.last_hidden_state[row : row + 1, :length]
        assert_equal(state, expected.last_hidden_state, f"text {row}")
        assert_equal(found.pooler_output[row : row + 1], expected.pooler_output, f"pooled {row}")
        total = total + state.square().sum()
        (expected.last_hidden_state.square().sum() + expected.pooler_output.sum()).backward()
        for name, parameter in alone.named_parameters():
            grad = parameter.grad
            assert grad is not None
            right[name] = right.get(name, torch.zeros_like(grad)) + grad
    total.backward()
    gradients = by_file_name(ours, {name: x.grad for name, x in ours.named_parameters()})
    for name, grad in right.items():
        torch.testing.assert_close(gradients[name], grad, rtol=1e-8, atol=1e-8)
