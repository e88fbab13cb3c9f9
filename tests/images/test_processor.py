"""Pixels equal those of the reference's image processor; its files are read and written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.exact import assert_same_bits

from heedful import ViTImageProcessor
from heedful.errors import UserError

Image = pytest.importorskip("PIL.Image", reason="needs the extra [images]")


def _picture(rows: int = 31, columns: int = 47, mode: str = "RGB") -> Image.Image:
    shape = (rows, columns) if mode == "L" else (rows, columns, 3)
    draw = np.random.default_rng(1)
    return Image.fromarray(draw.integers(0, 256, shape, dtype=np.uint8))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"resample": 3, "size": {"height": 20, "width": 36}},
        {"resample": 0, "do_normalize": False},
        {"do_rescale": False, "do_normalize": False, "size": {"height": 50, "width": 40}},
        {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
        {"rescale_factor": 1 / 127.5, "resample": 1},
    ],
    ids=["plain", "bicubic", "nearest", "raw", "other means", "lanczos"],
)
def test_pixels_of_the_reference(tmp_path: Path, options: dict[str, Any]) -> None:
    reference = pytest.importorskip("transformers", reason="needs the extra [hf]")
    theirs = reference.ViTImageProcessor(**{"size": {"height": 24, "width": 24}, **options})
    theirs.save_pretrained(tmp_path)
    ours = ViTImageProcessor.from_pretrained(tmp_path)
    for picture in (_picture(), _picture(20, 36), _picture(200, 9)):
        right = theirs(picture, return_tensors="np")["pixel_values"]
        pixels = ours(picture, return_tensors="np")["pixel_values"]
        np.testing.assert_allclose(pixels, right, rtol=0, atol=1e-6)
    ours.save_pretrained(tmp_path / "again")
    again = reference.ViTImageProcessor.from_pretrained(tmp_path / "again")
    for name in ("size", "resample", "do_rescale", "rescale_factor", "image_mean", "image_std"):
        assert getattr(again, name) == getattr(theirs, name)
    assert ViTImageProcessor.from_pretrained(tmp_path / "again") == ours


def test_several_pictures_in_any_form(tmp_path: Path) -> None:
    processor = ViTImageProcessor(size=(8, 8))
    _picture().save(tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    forms = [tmp_path / "a.png", str(tmp_path / "a.png"), content, _picture()]
    pixels = processor(forms)["pixel_values"]
    assert pixels.shape == (4, 3, 8, 8)
    assert_same_bits(pixels, pixels[:1].expand(4, -1, -1, -1), "one operation")
    for form in forms:
        assert_same_bits(processor(form)["pixel_values"], pixels[:1], "one operation")


def test_pixels_as_arrays_and_tensors() -> None:
    reference = pytest.importorskip("transformers", reason="needs the extra [hf]")
    theirs, ours = reference.ViTImageProcessor(size={"height": 8, "width": 8}), _small()
    pixels = np.asarray(_picture())  # (Y, X, C)
    first = np.ascontiguousarray(pixels.transpose(2, 0, 1))
    for one in (pixels, first, torch.from_numpy(first), [pixels, pixels], np.stack([first] * 3)):
        right = theirs(one, return_tensors="np")["pixel_values"]
        np.testing.assert_allclose(ours(one, return_tensors="np").pixel_values, right, atol=1e-6)
    assert_same_bits(ours(pixels).pixel_values, ours(_picture()).pixel_values, "one operation")
    assert ours.preprocess(pixels).to("cpu").pixel_values.shape == (1, 3, 8, 8)
    grey = ViTImageProcessor.from_dict({"size": 8, "image_mean": 0.5}, channels=1)
    for one in (pixels[:, :, 0], pixels[:, :, :1]):
        assert grey(one).pixel_values.shape == (1, 1, 8, 8)
    with pytest.raises(UserError, match=r"image 1: an array of float64 and shape \(31, 47, 3\)"):
        ours(pixels / 255)
    with pytest.raises(UserError, match=r"an array of uint8 and shape \(31, 47, 2\); it must be"):
        ours(pixels[:, :, :2])


def test_sizes_as_in_the_reference() -> None:
    assert _small() == ViTImageProcessor(size=8) == ViTImageProcessor(size=(8, 8))  # type: ignore[arg-type]
    size = ViTImageProcessor(size=(8, 9)).size
    assert size == (8, 9)
    assert (size["height"], size["width"], size[-1]) == (8, 9, 9)  # type: ignore[call-overload]
    assert "height" in size
    assert "shortest_edge" not in size
    for wrong in ({"shortest_edge": 8}, (8,), "8"):
        with pytest.raises(UserError, match=r'expected \{"height": 224, "width": 224\}'):
            ViTImageProcessor(size=wrong)  # type: ignore[arg-type]


def _small() -> ViTImageProcessor:
    return ViTImageProcessor(size={"height": 8, "width": 8})  # type: ignore[arg-type]


def test_grey() -> None:
    processor = ViTImageProcessor.from_dict({"size": 8, "image_mean": 0.5}, channels=1)
    assert processor(_picture(mode="L"))["pixel_values"].shape == (1, 1, 8, 8)
    assert processor(_picture())["pixel_values"].shape == (1, 1, 8, 8)


def test_a_mean_of_zero_is_no_missing_one() -> None:
    values = {"size": 8, "image_mean": 0.0, "image_std": 1.0}
    processor = ViTImageProcessor.from_dict(values)
    assert (processor.image_mean, processor.image_std) == ((0.0,) * 3, (1.0,) * 3)
    right = pytest.importorskip("transformers").ViTImageProcessor(**values)
    pixels, expected = (
        one(_picture(), return_tensors="np")["pixel_values"] for one in (processor, right)
    )
    np.testing.assert_allclose(pixels, expected, rtol=0, atol=1e-6)
    assert ViTImageProcessor.from_dict({"image_mean": None}).image_mean == (0.5,) * 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image_processor_type": "CLIPImageProcessor"}, "only 'ViTImageProcessor'|only ViT"),
        ({"do_center_crop": True}, "do_center_crop is True; only false is supported"),
        ({"do_rezise": True}, "unknown key 'do_rezise' .did you mean 'do_resize'"),
        ({"size": {"shortest_edge": 224}}, r'size is .*; expected {"height": 224, "width": 224}'),
        ({"size": {"height": "8", "width": 8}}, "size is"),
        ({"resample": 9}, r"resample is 9; it must be one of 0 \(nearest\)"),
        ({"image_std": [0.5, 0.0, 0.5]}, "and those of image_std not 0"),
        ({"image_mean": [0.5, 0.5]}, "3 numbers each, or 1 each"),
        ({"image_mean": "grey"}, "must be numbers"),
        ({"do_resize": 1}, "do_resize is 1; it must be true or false"),
    ],
)
def test_files_that_ask_for_something_else(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        ViTImageProcessor.from_pretrained(tmp_path)
    assert "preprocessor_config.json" in str(caught.value)


def test_pictures_that_are_not_to_be_resized() -> None:
    processor = ViTImageProcessor(size=(8, 8), do_resize=False)
    with pytest.raises(UserError, match="31 x 47 pixels; the model reads 8 x 8, and do_resize is"):
        processor(_picture())


def test_what_is_no_picture() -> None:
    with pytest.raises(UserError, match="image 2: a int; give a file"):
        ViTImageProcessor()([_picture(), 3])  # type: ignore[list-item]
    strange = Image.new("LA", (4, 4)).convert("La")
    with pytest.raises(UserError, match="image 1: conversion from La to "):
        ViTImageProcessor()(strange)
    with pytest.raises(UserError, match="no image given"):
        ViTImageProcessor()([])
