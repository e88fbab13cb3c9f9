"""XLNet's memory, streams and refusals, including what the reference cannot check."""

from typing import Any

import pytest
import torch

from heedful.errors import UserError
from heedful.models import (
    XLNetConfig,
    XLNetForQuestionAnswering,
    XLNetForQuestionAnsweringSimple,
    XLNetForSequenceClassification,
    XLNetLMHeadModel,
    XLNetModel,
)
from heedful.models.xlnet.presets import PRESETS

B, S, D, L = 2, 12, 16, 2
SIZES: dict[str, Any] = {
    **{"vocab_size": 40, "n_layer": L, "n_head": 2, "d_model": D, "d_inner": 24},
    **{"initializer_range": 0.3, "dropout": 0.0, "summary_last_dropout": 0.0},
}
IDS = torch.randint(40, (B, S), generator=torch.Generator().manual_seed(0))


def _model(kind: Any = XLNetModel, **changes: Any) -> Any:
    torch.manual_seed(0)
    return kind(XLNetConfig(**{**SIZES, **changes})).double().eval()


@pytest.mark.parametrize("cut", [1, 5, 11])
def test_segments_with_memory_are_the_text_as_a_whole(cut: int) -> None:
    """This holds if no token sees a later one, because the memory has not."""
    model = _model(attn_type="uni", mem_len=None)
    whole = model(IDS)
    first = model(IDS[:, :cut], use_mems=True)
    second = model(IDS[:, cut:], mems=first.mems, use_mems=True)
    both = torch.cat([first.last_hidden_state, second.last_hidden_state], 1)
    torch.testing.assert_close(both, whole.last_hidden_state)
    assert [memory.shape for memory in second.mems] == [(S, B, D)] * L


def test_memory_has_the_length_that_the_configuration_says() -> None:
    model = _model(mem_len=5, reuse_len=3)
    first = model(IDS[:, :4], use_mems=True)
    assert first.mems[0].shape == (3, B, D)
    second = model(IDS[:, 4:], mems=first.mems, use_mems=True)
    assert second.mems[0].shape == (5, B, D)
    assert model(IDS).mems is None


def test_pruned_heads_are_those_that_a_mask_hides_in_both_streams() -> None:
    model = _model()
    mapping = torch.eye(S)[None, 2:5].expand(B, -1, -1)
    given = {
        "perm_mask": torch.eye(S).expand(B, -1, -1),
        "target_mapping": mapping,
        "token_type_ids": IDS % 2,
        "mems": tuple(torch.randn(3, B, D, dtype=torch.float64) for _ in range(L)),
    }
    hide = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).double()
    masked = model(IDS, **given, head_mask=hide).last_hidden_state
    model.prune_heads({0: [1], 1: [0]})
    torch.testing.assert_close(model(IDS, **given).last_hidden_state, masked)
    again = XLNetModel(model.config).double()
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again(IDS, **given).last_hidden_state, masked)


def test_what_has_nothing_to_see_gets_zeros_and_leaks_nothing() -> None:
    """The reference lets it see everything, including itself."""
    model = _model(n_layer=1)
    given = {
        "perm_mask": torch.ones(B, S, S),
        "target_mapping": torch.eye(S)[None, :1].expand(B, -1, -1),
    }
    other = IDS.clone()
    other[:, 0] = (other[:, 0] + 1) % 40
    torch.testing.assert_close(
        model(IDS, **given).last_hidden_state, model(other, **given).last_hidden_state
    )


def test_dropout_draws_for_both_streams() -> None:
    model = _model(XLNetLMHeadModel, dropout=0.5).train()
    positions = torch.tensor([3, 15])
    torch.manual_seed(0)
    first = model(IDS, positions=positions).logits
    assert not torch.isclose(first, model(IDS, positions=positions).logits).all()


def test_positions_are_a_mapping_that_nobody_sees() -> None:
    model = _model(XLNetLMHeadModel)
    positions = torch.tensor([2, 7, S + 4])
    mapping = torch.zeros(B, 2, S)
    mapping[0, 0, 2] = mapping[0, 1, 7] = mapping[1, 0, 4] = 1
    hidden = mapping.any(1).double()[:, None].expand(-1, S, -1)
    right = model(IDS, target_mapping=mapping, perm_mask=hidden).logits
    expected = torch.stack([right[0, 0], right[0, 1], right[1, 0]])
    torch.testing.assert_close(model(IDS, positions=positions).logits, expected)


def test_the_pointer_finds_what_may_be_an_answer() -> None:
    model = _model(XLNetForQuestionAnswering, start_n_top=3, end_n_top=2)
    forbidden = torch.zeros(B, S)
    forbidden[:, :6] = 1
    best = model(IDS, p_mask=forbidden)
    assert best.start_top_index.shape == (B, 3)
    assert best.end_top_index.shape == (B, 6)
    assert best.start_top_index.min() >= 6
    assert best.end_top_index.min() >= 6
    torch.testing.assert_close(model(IDS[:, :2]).start_top_log_probs.sum(1), torch.ones(B).double())


@pytest.mark.parametrize("model", [XLNetForQuestionAnswering, XLNetForQuestionAnsweringSimple])
@pytest.mark.parametrize("name", ["start_positions", "end_positions"])
def test_an_answer_with_one_end_is_refused(model: Any, name: str) -> None:
    with pytest.raises(UserError, match="give both start_positions and end_positions, or neither"):
        _model(model)(IDS, **{name: torch.zeros(B, dtype=torch.long)})


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_sizes(name: str) -> None:
    config = XLNetConfig(**PRESETS[name])
    assert config.d_model // config.n_head == 64


MEMORY = tuple(torch.zeros(3, B, D) for _ in range(L))
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "both masks": (
        {"attention_mask": IDS > -1, "input_mask": IDS < 0},
        "either attention_mask or input_mask",
    ),
    "a mask of queries": (
        {"attention_mask": torch.ones(B, S, S)},
        r"must be \(2, 12\); for other masks",
    ),
    "a mask of numbers": ({"attention_mask": IDS + 1}, "attention_mask holds values from"),
    "an order of another length": (
        {"perm_mask": torch.ones(B, S, 3)},
        r"perm_mask has shape \(2, 12, 3\)",
    ),
    "a mapping of another length": (
        {"target_mapping": torch.ones(B, 1, 3)},
        r"target_mapping has shape \(2, 1, 3\); it must be \(2, predictions, 12\)",
    ),
    "two tokens in a row": ({"target_mapping": torch.ones(B, 1, S)}, "at most one 1"),
    "half a token": (
        {"target_mapping": torch.eye(S)[None, :2].expand(B, -1, -1) / 2},
        "at most one 1",
    ),
    "one token twice": (
        {"target_mapping": torch.eye(S)[None, [1, 1]].expand(B, -1, -1)},
        "one row",
    ),
    "memory of fewer blocks": ({"mems": MEMORY[:1]}, "mems has 1 blocks; the model has 2"),
    "memory of another batch": (
        {"mems": (MEMORY[0], torch.zeros(3, 1, D))},
        r"the memory of block 1 has shape \(3, 1, 16\); it must be \(3, 2, 16\)",
    ),
    "types of another length": ({"token_type_ids": IDS[:, :3]}, "token_type_ids has shape"),
    "types that are no integers": ({"token_type_ids": IDS.float()}, "token_type_ids has type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    given, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        _model()(IDS, **given)


def test_a_batch_that_has_no_halves_is_refused() -> None:
    with pytest.raises(UserError, match="the batch has 1 sequences; with bi_data half"):
        _model(bi_data=True)(IDS[:1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_model": 15, "n_head": 3}, "d_model is 15; it must be even"),
        ({"d_model": 16, "n_head": 3}, "d_model 16 is not a multiple of n_head 3"),
        ({"attn_type": "both"}, "attn_type 'both'"),
        ({"summary_type": "attn"}, "summary_type 'attn'"),
        ({"clamp_len": -2}, "clamp_len is -2"),
        ({"mem_len": 1.5}, "mem_len is 1.5"),
    ],
)
def test_configurations_that_are_none(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        XLNetConfig(**{**SIZES, **changes})


def test_a_file_s_head_width_must_follow() -> None:
    values = XLNetConfig(**SIZES).to_dict()
    assert XLNetConfig.from_dict({**values, "d_head": 8}) == XLNetConfig(**SIZES)
    with pytest.raises(UserError, match="d_head is 9; d_model 16 and n_head 2 make it 8"):
        XLNetConfig.from_dict({**values, "d_head": 9})


def test_an_empty_text_leaves_the_mean_of_the_others_alone() -> None:
    model = _model(XLNetForSequenceClassification, summary_type="mean")
    mask = torch.ones_like(IDS)
    mask[-1] = 0
    logits = model(IDS, attention_mask=mask).logits
    assert logits.isfinite().all()
    torch.testing.assert_close(logits[:-1], model(IDS[:-1]).logits)


def test_answers_without_a_label_have_no_gradient() -> None:
    model = _model(XLNetForQuestionAnswering)
    nowhere = torch.full((B,), -100)
    model(IDS, start_positions=nowhere, end_positions=nowhere).loss.backward()
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    assert not any(gradient.any() for gradient in gradients)
