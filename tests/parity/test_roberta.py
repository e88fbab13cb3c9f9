"""RoBERTa's positions, which count from the padding id, at published sizes."""

from types import ModuleType
from typing import Any

import pytest
import torch
from tests.parity.equal import assert_equal
from tests.parity.families import ROWS, pair_of_models

from heedful.errors import UserError

POSITIONS = 514
FAMILIES = [name for name, row in ROWS.items() if row.positions_after is not None]


def _models(reference: ModuleType, family: str) -> tuple[Any, Any]:
    name = {"mpnet": "MPNetModel", "roberta": "RobertaModel"}.get(family, "XLMRobertaModel")
    ours, theirs = pair_of_models(reference, family, name, max_position_embeddings=POSITIONS)
    return ours.eval(), theirs.eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_512_of_514_positions_are_for_tokens(reference: ModuleType, family: str) -> None:
    ours, theirs = _models(reference, family)
    assert ours.max_positions == 512
    ids = torch.randint(3, 50, (1, 512), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert_equal(ours(ids).last_hidden_state, theirs(ids).last_hidden_state, "longest")
    with pytest.raises(UserError, match="the sequence has 513 tokens; the model takes 1 to 512"):
        ours(torch.cat([ids, ids[:, :1]], 1))


@pytest.mark.parametrize("family", FAMILIES)
def test_padding_may_stand_anywhere(reference: ModuleType, family: str) -> None:
    ours, theirs = _models(reference, family)
    ids = torch.tensor([[1, 1, 0, 7, 8, 2], [0, 1, 9, 1, 2, 1], [0, 5, 6, 7, 2, 1]])
    for mask in (None, ids.ne(1).long()):
        with torch.no_grad():
            found = ours(ids, mask).last_hidden_state
            assert_equal(found, theirs(ids, attention_mask=mask).last_hidden_state, "states")
