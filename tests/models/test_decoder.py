"""Properties of BERT as a decoder, with a cache and with an encoder."""

import dataclasses
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits

from heedful.errors import UserError
from heedful.layers.cache import BlockCache, Cache, KeyValue
from heedful.models import BertConfig, BertModel

IDS = torch.tensor([[2, 7, 8, 9, 3, 4], [2, 10, 3, 5, 6, 7], [2, 3, 9, 9, 8, 1]])
ENCODED = torch.randn(3, 4, 24, generator=torch.Generator().manual_seed(3))
ENCODED_MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
TYPES = ["absolute", "relative_key", "relative_key_query"]


def _decoder(config: BertConfig, positions: str = "absolute", cross: bool = True) -> BertModel:
    values = {"position_embedding_type": positions, "is_decoder": True}
    torch.manual_seed(0)
    config = BertConfig.from_dict({**config.to_dict(), **values, "add_cross_attention": cross})
    return BertModel(config).double().eval()


def _encoder() -> dict[str, torch.Tensor]:
    return {"encoder_hidden_states": ENCODED.double(), "encoder_attention_mask": ENCODED_MASK}


@pytest.mark.parametrize("positions", TYPES)
def test_what_comes_later_changes_nothing(config: BertConfig, positions: str) -> None:
    model = _decoder(config, positions)
    before = model(IDS, **_encoder()).last_hidden_state
    changed = IDS.clone()
    changed[:, 4:] = 17
    after = model(changed, **_encoder()).last_hidden_state
    torch.testing.assert_close(after[:, :4], before[:, :4], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 4], before[:, 4])


@pytest.mark.parametrize("cuts", [[1, 2, 3, 4, 5], [3], [2, 5]])
@pytest.mark.parametrize("positions", TYPES)
def test_going_on_from_a_cache_equals_all_at_once(
    config: BertConfig, positions: str, cuts: list[int]
) -> None:
    model = _decoder(config, positions)
    mask = torch.ones_like(IDS)
    mask[1, :2] = 0  # a shorter text begins later
    positions_ids = (mask.cumsum(1) - 1).clamp(min=0)
    whole = model(IDS, mask, position_ids=positions_ids, **_encoder(), output_attentions=True)
    past, parts = None, []
    for start, end in zip([0, *cuts], [*cuts, 6], strict=True):
        output = model(
            IDS[:, start:end],
            mask[:, :end],
            position_ids=positions_ids[:, start:end],
            # Only the first call needs the encoder.
            encoder_hidden_states=ENCODED.double() if past is None else None,
            encoder_attention_mask=ENCODED_MASK,
            past_key_values=past,
            use_cache=True,
            output_attentions=True,
        )
        past = output.past_key_values
        assert past is not None
        assert past.length == end
        parts.append(output.last_hidden_state)
    torch.testing.assert_close(torch.cat(parts, 1), whole.last_hidden_state)
    torch.testing.assert_close(output.attentions[0], whole.attentions[0][:, :, cuts[-1] :])
    expected = whole.cross_attentions[1][:, :, cuts[-1] :]
    torch.testing.assert_close(output.cross_attentions[1], expected)


def test_a_cache_is_never_changed(config: BertConfig) -> None:
    model = _decoder(config)
    past = model(IDS[:, :3], **_encoder(), use_cache=True).past_key_values
    pairs = [pair for x in past.blocks for pair in (x.self_attention, x.cross_attention)]
    before = [x.clone() for pair in pairs for x in pair]
    later = model(IDS[:, 3:], past_key_values=past, use_cache=True).past_key_values
    after = [x for pair in pairs for x in pair]
    for one, other in zip(before, after, strict=True):
        assert_same_bits(one, other, "stored")
    assert (past.length, later.length) == (3, 6)
    assert model(IDS[:, 3:], past_key_values=past).past_key_values is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        past.blocks = ()


def test_sequences_of_a_cache_can_be_chosen(config: BertConfig) -> None:
    model = _decoder(config)
    past = model(IDS[:, :3], **_encoder(), use_cache=True).past_key_values
    rows = torch.tensor([2, 0, 2, 1])
    found = model(
        IDS[rows, 3:],
        past_key_values=past.select(rows),
        encoder_attention_mask=ENCODED_MASK[rows],
    )
    whole = model(IDS, **_encoder()).last_hidden_state[rows, 3:]
    torch.testing.assert_close(found.last_hidden_state, whole)


def test_a_prefix_may_see_itself_whole(config: BertConfig) -> None:
    model = _decoder(config, cross=False)
    mask = torch.ones(3, 6, 6).tril().long()
    torch.testing.assert_close(model(IDS, mask).pooler_output, model(IDS).pooler_output)
    mask[:, :3, :3] = 1
    output = model(IDS, mask, output_attentions=True)
    assert output.attentions[0][:, :, 0, 2].gt(0).all()
    assert output.attentions[0][:, :, 0, 3].eq(0).all()


def test_without_an_encoder_cross_attention_is_left_out(config: BertConfig) -> None:
    with_cross, without = _decoder(config), _decoder(config, cross=False)
    without.load_state_dict(with_cross.state_dict(), strict=False)
    output = with_cross(IDS, output_attentions=True)
    plain = without(IDS, output_attentions=True)
    torch.testing.assert_close(output.last_hidden_state, plain.last_hidden_state)
    assert output.cross_attentions is None


def _pair(batch: int = 3, heads: int = 4, length: int = 2, width: int = 6) -> KeyValue:
    return KeyValue(*torch.zeros(2, batch, heads, length, width, dtype=torch.float64))


def _cache(*pairs: KeyValue, cross: KeyValue | None = None) -> Cache:
    blocks = (BlockCache(self_attention=pair, cross_attention=cross) for pair in pairs)
    return Cache(blocks=tuple(blocks))


LONG = _pair(length=7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"past_key_values": _cache()}, "past_key_values has 0 blocks; the model has 2"),
        ({"past_key_values": _cache(_pair())}, "past_key_values has 1 blocks; the model has 2"),
        (
            {"past_key_values": _cache(_pair(batch=2), _pair(batch=2))},
            r"the key of block 0 has shape \(2, 4, 2, 6\); it must be \(3, 4, 2, 6\)",
        ),
        (
            {"past_key_values": _cache(_pair(), _pair(length=3))},
            r"the key of block 1 has shape \(3, 4, 3, 6\); it must be \(3, 4, 2, 6\)",
        ),
        (
            {"past_key_values": _cache(_pair(), KeyValue(_pair().key, _pair(heads=2).value))},
            "the value of block 1 has shape",
        ),
        (
            {"past_key_values": _cache(_pair(), _pair(), cross=_pair(width=5))},
            "the cross-attention key of block 0 has shape",
        ),
        (
            {"past_key_values": _cache(_pair(), _pair(), cross=_pair(length=3)), **_encoder()},
            r"cross-attention key of block 0 has shape \(3, 4, 3, 6\); it must be \(3, 4, 4, 6\)",
        ),
        (
            {"past_key_values": _cache(LONG, LONG)},
            "the sequence has 6 tokens and past_key_values 7; the model takes 1 to 12",
        ),
        (
            {
                "past_key_values": _cache(_pair(), _pair()),
                "attention_mask": torch.ones(3, 6).long(),
            },
            r"attention_mask has shape \(3, 6\); it must be \(3, 8\) or \(3, 6, 8\)",
        ),
        ({"encoder_hidden_states": ENCODED[:2]}, r"must be \(3, length, 24\)"),
        (
            {"encoder_hidden_states": ENCODED[..., 1:]},
            r"encoder_hidden_states has shape \(3, 4, 23",
        ),
        ({"encoder_hidden_states": ENCODED[0]}, "encoder_hidden_states has shape"),
        (
            {**_encoder(), "encoder_attention_mask": ENCODED_MASK[:, 1:]},
            r"encoder_attention_mask has shape \(3, 3\); it must be \(3, 4\) or \(3, 6, 4\)",
        ),
        (
            {"encoder_attention_mask": ENCODED_MASK},
            "encoder_attention_mask is given without encoder_hidden_states",
        ),
        ({"head_mask": torch.ones(3)}, r"head_mask has shape \(3,\); .* \(4,\) or \(2, 4\)"),
        ({"head_mask": torch.ones(4, 2)}, r"head_mask has shape \(4, 2\)"),
    ],
)
def test_wrong_input_is_named(config: BertConfig, given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _decoder(config)(IDS, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"use_cache": True}, "use_cache is for a decoder; is_decoder is false"),
        ({"past_key_values": _cache(_pair(), _pair())}, "past_key_values is for a decoder"),
        ({"encoder_hidden_states": ENCODED}, "add_cross_attention is false"),
    ],
)
def test_an_encoder_takes_nothing_of_a_decoder(
    config: BertConfig, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        BertModel(config)(IDS, **given)
