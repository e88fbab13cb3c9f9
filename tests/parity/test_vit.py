"""ViT equals the reference: values and gradients in float64, folders both ways."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from tests.parity.equal import assert_equal
from torch import Tensor, nn

from heedful import models
from heedful.errors import UserError
from heedful.models.model import Model
from heedful.models.weights import renamed

SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "image_size": 12,
    "patch_size": 4,
    "encoder_stride": 4,
    "initializer_range": 0.3,
    "num_labels": 3,
}
CLASSES = ("ViTModel", "ViTForImageClassification", "ViTForMaskedImageModeling")
PATCHES = 9


@dataclass(frozen=True, kw_only=True)
class Case:
    """Differences from a plain call of a plain model."""

    name: str
    config: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    size: tuple[int, int] = (12, 12)
    training: bool = False
    only: tuple[str, ...] = CLASSES

    def __str__(self) -> str:
        return self.name


def _head_mask() -> Tensor:
    torch.manual_seed(7)
    return torch.rand(2, 4, dtype=torch.float64)


def _hidden() -> Tensor:
    # As numbers of 64 bits: of others the reference rounds the count to float32.
    return torch.tensor([[1, 0, 1] * 3, [0, 1, 1] * 3]).double()


OPTIONS = [
    Case(name="plain"),
    Case(name="train", training=True),
    Case(name="grey", config={"num_channels": 1}),
    Case(name="no bias", config={"qkv_bias": False}),
    Case(name="relu", config={"hidden_act": "relu", "layer_norm_eps": 1e-5}),
    Case(name="pooler", config={"pooler_output_size": 10, "pooler_act": "relu"}),
    Case(name="pruned", config={"pruned_heads": {0: [1, 3], 1: [2]}}),
    Case(name="chunks", config={"chunk_size_feed_forward": 5}),
    Case(name="head mask", call={"head_mask": _head_mask()}),
    Case(name="states", call={"output_hidden_states": True}),
    Case(name="weights", call={"output_attentions": True}),
    Case(name="hidden patches", call={"bool_masked_pos": _hidden()}, only=(CLASSES[0], CLASSES[2])),
    Case(name="larger", size=(20, 20), call={"interpolate_pos_encoding": True}),
    Case(name="odd", size=(17, 9), call={"interpolate_pos_encoding": True}, only=CLASSES[:2]),
]
"""Each option of the reference, and those of ours that change nothing."""


def _pairs() -> Iterator[Case]:
    """Yield the options alone, and a fifth of their pairs."""
    yield from OPTIONS
    for number, (one, two) in enumerate(combinations(OPTIONS[1:], 2)):
        if number % 5 or (one.size != (12, 12) and two.size != (12, 12)):
            continue
        hides = any("bool_masked_pos" in case.call for case in (one, two))
        larger = any(case.size != (12, 12) for case in (one, two))
        names = {one.name, two.name}
        # There are other patches then; and the reference has no mask for heads that are gone.
        if (hides and larger) or names == {"pruned", "head mask"}:
            continue
        yield Case(
            name=f"{one.name}, {two.name}",
            config=one.config | two.config,
            call=one.call | two.call,
            size=one.size if one.size != (12, 12) else two.size,
            training=one.training or two.training,
            only=tuple(set(one.only) & set(two.only)),
        )


def _pair(reference: ModuleType, name: str, case: Case) -> tuple[Model, nn.Module]:
    """Return our model and the reference's with the same weights, in float64."""
    pruned = case.config.get("pruned_heads", {})
    config = {key: value for key, value in case.config.items() if key != "pruned_heads"}
    options = {"use_mask_token": "bool_masked_pos" in case.call} if name == "ViTModel" else {}
    torch.manual_seed(3)
    theirs = getattr(reference, name)(
        reference.ViTConfig(**SIZES | config, attn_implementation="eager"), **options
    )
    for parameter in theirs.parameters():  # also those that start as 0 or 1
        nn.init.normal_(parameter, std=0.3)
    if pruned:
        theirs.prune_heads(pruned)
    ours = getattr(models, name)(models.ViTConfig(**SIZES | case.config), **options)
    in_files = {theirs: ours for ours, theirs in ours.file_names.items()}
    weights = {renamed(key, in_files): value for key, value in theirs.state_dict().items()}
    ours.load_state_dict(weights)
    return ours.double().train(case.training), theirs.double().train(case.training)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the reference's weights in float64 where it would round them to float32."""

    def softmax(scores: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
        return scores.softmax(dim)

    monkeypatch.setattr(nn.functional, "softmax", softmax)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("case", [*_pairs()], ids=str)
def test_values_and_gradients(reference: ModuleType, case: Case) -> None:
    for name in case.only:
        ours, theirs = _pair(reference, name, case)
        torch.manual_seed(5)
        channels = case.config.get("num_channels", 3)
        pixels = torch.randn(2, channels, *case.size, dtype=torch.float64)
        call = dict(case.call)
        if name == "ViTForImageClassification":
            call["labels"] = torch.tensor([2, 0])
        results = []
        for model in (ours, theirs):
            read = pixels.clone().requires_grad_()
            output = model(read, **call)
            sum(value.square().sum() for value in _tensors(output)).backward()
            by_name = dict(model.named_parameters())
            gradients = {key: value.grad for key, value in by_name.items()}
            results.append(
                (dict(output.items()) if model is theirs else output, gradients, read.grad)
            )
        (mine, my_gradients, my_read), (right, right_gradients, right_read) = results
        assert set(mine.keys()) == set(right)
        for key in right:
            values, expected = mine[key], right[key]
            for one, other in zip(*(_listed(values), _listed(expected)), strict=True):
                assert_equal(one, other, f"{name} {key}")
        assert_equal(my_read, right_read, f"{name}: gradient of the pixels")
        for key, gradient in my_gradients.items():
            assert_equal(gradient, right_gradients[renamed(key, ours.file_names)], f"{name} {key}")


def _listed(value: Any) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def _tensors(output: Any) -> list[Tensor]:
    return [tensor for value in output.to_tuple() for tensor in _listed(value)]


@pytest.mark.parametrize("name", CLASSES)
def test_options_of_ours_change_nothing(name: str) -> None:
    torch.manual_seed(0)
    kind = getattr(models, name)
    plain = kind(models.ViTConfig(**SIZES)).double().train()
    chunked = kind(models.ViTConfig(**SIZES, chunk_size_feed_forward=3)).double().train()
    chunked.load_state_dict(plain.state_dict())
    recomputed = kind(models.ViTConfig(**SIZES)).double().train()
    recomputed.load_state_dict(plain.state_dict())
    recomputed.gradient_checkpointing = True
    pixels = torch.randn(2, 3, 12, 12, dtype=torch.float64)
    results = []
    for model in (plain, chunked, recomputed):
        _tensors(model(pixels))[0].square().sum().backward()
        results.append([p.grad for p in model.parameters() if p.grad is not None])
    for other in results[1:]:
        torch.testing.assert_close(results[0], other)
    masked = _tensors(plain(pixels, head_mask=torch.tensor([1.0, 0.0, 1.0, 0.0]).double()))[0]
    plain.prune_heads({0: [1, 3], 1: [1, 3]})
    torch.testing.assert_close(_tensors(plain(pixels))[0], masked)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_channels": 1, "qkv_bias": False, "image_size": 8, "problem_type": "regression"},
        {"pooler_output_size": 10, "pooler_act": "relu", "pruned_heads": {1: [0, 2]}},
    ],
    ids=["plain", "grey", "pooler"],
)
def test_folders_both_ways(
    reference: ModuleType, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    ours = getattr(models, name)(models.ViTConfig(**SIZES | options)).eval()
    ours.save_pretrained(tmp_path / "ours")
    theirs = getattr(reference, name).from_pretrained(tmp_path / "ours").eval()
    side = SIZES["image_size"] if "image_size" not in options else options["image_size"]
    pixels = torch.randn(2, options.get("num_channels", 3), side, side)
    with torch.no_grad():
        mine, right = ours(pixels), theirs(pixels)
    for key, value in right.items():
        torch.testing.assert_close(mine[key], value)
    theirs.save_pretrained(tmp_path / "theirs")
    again = getattr(models, name).from_pretrained(tmp_path / "theirs")
    assert_same_bits(again.state_dict(), ours.state_dict(), "stored")
    assert again.config == ours.config


def test_a_published_configuration_is_read(reference: ModuleType) -> None:
    values = reference.ViTConfig(**SIZES).to_dict()
    config = models.ViTConfig.from_dict(values)
    assert {key: getattr(config, key) for key in SIZES} == SIZES


def test_a_model_of_hidden_patches_starts_from_one_without(tmp_path: Path) -> None:
    plain = models.ViTModel(models.ViTConfig(**SIZES))
    plain.save_pretrained(tmp_path / "plain")
    model = models.ViTForMaskedImageModeling.from_pretrained(tmp_path / "plain")
    positions = model.body.embeddings.position_embeddings.weight
    assert_same_bits(positions, plain.embeddings.position_embeddings.weight, "stored")
    assert model(torch.randn(1, 3, 12, 12), torch.ones(1, PATCHES)).loss.isfinite()


def test_pictures_of_another_size_are_read_from_now_on() -> None:
    model = models.ViTModel(models.ViTConfig(**SIZES)).eval()
    pixels = torch.randn(1, 3, 20, 16)
    with torch.no_grad():
        before = model(pixels, interpolate_pos_encoding=True).last_hidden_state
        model.set_image_size((20, 16))
        torch.testing.assert_close(model(pixels).last_hidden_state, before)
    assert model.config.image_size == (20, 16)
    assert model.max_positions == 21


@pytest.mark.parametrize(
    ("pixels", "call", "message"),
    [
        ((1, 3, 12), {}, r"pixel_values has shape \(1, 3, 12\); it must be \(batch, 3, 12, 12\)"),
        ((1, 1, 12, 12), {}, r"it must be \(batch, 3, 12, 12\)"),
        ((1, 3, 16, 12), {}, "16 x 12 pixels; the model reads 12 x 12"),
        ((1, 3, 3, 12), {"interpolate_pos_encoding": True}, "a patch has 4 x 4"),
        ((1, 3, 12, 12), {"bool_masked_pos": torch.ones(1, 9)}, "the model has no mask token"),
        ((1, 3, 12, 12), {"head_mask": torch.ones(3)}, "head_mask has shape"),
    ],
)
def test_what_cannot_be_read(pixels: tuple[int, ...], call: dict[str, Any], message: str) -> None:
    model = models.ViTModel(models.ViTConfig(**SIZES))
    with pytest.raises(UserError, match=message):
        model(torch.zeros(pixels), **call)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image_size": 3}, "image_size 3 is smaller than patch_size 4"),
        ({"image_size": [12]}, r"image_size is \[12\]; it must be a number of pixels, or rows"),
        ({"patch_size": 0}, "patch_size is 0"),
        ({"hidden_size": 25}, "hidden_size 25 is not a multiple of num_attention_heads 4"),
        ({"pooler_act": "tan"}, "tanh"),
        ({"qkv_bias": 1}, "qkv_bias is 1; it must be true or false"),
        ({"encoder_stride": 0}, "encoder_stride is 0"),
    ],
)
def test_what_no_model_has(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        models.ViTConfig(**SIZES | values)


def test_hidden_patches_and_pixels_must_fit() -> None:
    model = models.ViTForMaskedImageModeling(models.ViTConfig(**SIZES | {"encoder_stride": 8}))
    with pytest.raises(UserError, match="patch_size 4 must equal encoder_stride 8"):
        model(torch.zeros(1, 3, 12, 12), torch.ones(1, PATCHES))
    with pytest.raises(UserError, match=r"bool_masked_pos has shape \(1, 4\); it must be \(1, 9\)"):
        model.body(torch.zeros(1, 3, 12, 12), torch.ones(1, 4))
