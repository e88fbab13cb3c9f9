"""Models that read images are exported, and compute the same in other libraries."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from tests.interop.readme import printed

import heedful
from heedful.errors import UserError
from heedful.interop import export
from heedful.models import ViTConfig, ViTModel

Image = pytest.importorskip("PIL.Image", reason="needs the extra [images]")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    draw = np.random.default_rng(0)
    for label in ("a", "b"):
        (folder / label).mkdir()
        for number in range(2):
            pixels = draw.integers(0, 256, (20, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["colours", "grey"])
def run(
    pictures: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    sizes = {"preset": "mini", "image_size": 16, "patch_size": 8, "grey": request.param}
    options = {"steps": 1, "batch_size": 4, "precision": "fp32", "say": lambda line: None}
    heedful.train("classify", train=pictures, out=out, format="images", **sizes, **options)  # type: ignore[arg-type]
    return out


def test_transformers(run: Path, pictures: Path, tmp_path: Path) -> None:
    reference: ModuleType = pytest.importorskip("transformers", reason="needs the extra [hf]")
    check = export(run, tmp_path / "hf", "hf")
    assert check.batches == 3
    model = reference.AutoModelForImageClassification.from_pretrained(tmp_path / "hf")
    processor = reference.AutoImageProcessor.from_pretrained(tmp_path / "hf", use_fast=False)
    ours = heedful.load(run, precision="fp32")
    picture = pictures / "a" / "0.png"
    channels = ours.tokenizer.channels
    pixels = np.asarray(Image.open(picture).convert("L" if channels == 1 else "RGB"))
    read = processor(
        pixels.reshape(*pixels.shape[:2], channels),
        return_tensors="pt",
        input_data_format="channels_last",
    )
    with torch.no_grad():
        right = model(**read).logits.softmax(-1)[0]
    scores = ours(str(picture)).scores
    assert model.config.id2label == dict(enumerate(scores))
    torch.testing.assert_close(torch.tensor([*scores.values()]), right, rtol=1e-4, atol=1e-5)


def test_onnx(run: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript", reason="needs the extra [onnx]")
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    assert export(run, tmp_path / "onnx", "onnx").batches == 3
    assert printed(tmp_path / "onnx", monkeypatch) == "logits (2, 2)\n"


def test_openvino(run: Path, tmp_path: Path) -> None:
    for package in ("openvino", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="needs the extras [onnx] and [openvino]")
    assert export(run, tmp_path / "openvino", "openvino").batches == 3


def test_a_body_has_no_vectors_of_texts(tmp_path: Path) -> None:
    body = ViTModel(ViTConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1))
    body.save_pretrained(tmp_path / "body")
    with pytest.raises(UserError, match="not a heedful run"):
        export(tmp_path / "body", tmp_path / "out", "onnx")
