"""Explanations of images: scores of patches, shown over the image."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.exact import assert_same_bits

import heedful
from heedful import ViTImageProcessor
from heedful.batches.images import image_example
from heedful.explanations.explanation import Explanation
from heedful.explanations.html import render
from heedful.explanations.methods import METHODS
from heedful.explanations.overlays import tinted
from heedful.explanations.pictures import AGAINST, FOR, save_picture
from heedful.models import ViTConfig, ViTForImageClassification
from heedful.tasks.modalities.patches import covered, grid_of

Image = pytest.importorskip("PIL.Image", reason="needs the extra [images]")

SIZES = {
    **{"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"intermediate_size": 32, "image_size": 12, "patch_size": 4, "initializer_range": 0.3},
}


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("picture") / "it.png"
    pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def run(picture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    torch.manual_seed(0)
    ViTForImageClassification(ViTConfig(**SIZES)).save_pretrained(folder / "model")  # type: ignore[arg-type]
    ViTImageProcessor(size=(12, 12)).save_pretrained(folder / "model")
    for label in ("a", "b"):
        (folder / "data" / label).mkdir(parents=True)
        (folder / "data" / label / "1.png").write_bytes(picture.read_bytes())
    heedful.train(
        "classify",
        train=folder / "data",
        out=folder / "run",
        format="images",
        model=str(folder / "model"),
        steps=1,
        learning_rate=1e-9,
        precision="fp32",
        say=lambda line: None,
    )
    return folder / "run"


@pytest.fixture(scope="module")
def explanation(run: Path, picture: Path) -> Explanation:
    return heedful.explain(run, str(picture), method=tuple(METHODS))


def test_each_method_scores_each_patch(explanation: Explanation) -> None:
    (side,) = explanation.sides
    assert side.display_tokens()[:5] == ["[CLS]", "1,1", "1,2", "1,3", "2,1"]
    assert [len(one.scores[0] or ()) for one in explanation.attributions] == [10] * len(METHODS)
    by_method = {one.method: one for one in explanation.attributions}
    check = by_method["integrated-gradients"].completeness
    assert check is not None
    assert check.held
    rolled = by_method["rollout"].scores[0]
    assert sum(rolled or ()) == pytest.approx(1)


def test_a_patch_counts_by_what_is_lost_without_it(
    explanation: Explanation, run: Path, picture: Path
) -> None:
    (scores,) = next(x for x in explanation.attributions if x.method == "leave-one-out").scores
    assert scores is not None
    assert scores[0] == 0
    pixels = np.asarray(Image.open(picture)).copy()
    pixels[4:8, 0:4] = 128  # the first of the second row
    predictor = heedful.load(run, precision="fp32")
    label = explanation.answer["label"]
    read = [
        predictor.tokenizer(Image.fromarray(one))
        for one in (np.asarray(Image.open(picture)), pixels)
    ]
    with torch.no_grad():
        before, after = (
            predictor.model(**one).logits[0, predictor.task.labels.index(label)] for one in read
        )
    assert scores[4] == pytest.approx(float(before - after), abs=1e-4)


def test_a_report_shows_the_pictures_once_under_their_patches(run: Path) -> None:
    html = heedful.report(run, run.parent / "data", format="images").html
    english, chinese, _ = re.split('<template id="chinese"|</template>', html)
    explained = english.count('<svg class="patches"')
    assert explained
    assert english.count("data:image/png;base64,") == explained
    assert chinese.count("data:image/png;base64,") == 0
    assert re.findall('data-part="[^"]*"', english) == re.findall('data-part="[^"]*"', chinese)
    assert ">1,1<" not in english
    assert "patches are shaded" in english


def test_the_page_shows_the_picture_under_its_patches(explanation: Explanation) -> None:
    page = render(explanation)
    assert page.count("data:image/png;base64,") == len(METHODS)
    assert len(re.findall(r"<rect x=\"[012]\" y=\"[012]\"", page)) == 9 * len(METHODS)
    assert "<title>3,3: " in page
    assert json.loads(json.dumps(explanation.to_dict()))["sides"][0]["patches"] == [3, 3]


@pytest.mark.parametrize(
    ("patches", "size", "grid"),
    [(9, (12, 12), (3, 3)), (6, (8, 12), (2, 3)), (6, (12, 8), (3, 2)), (7, (4, 28), (1, 7))],
)
def test_patches_are_as_square_as_can_be(
    patches: int, size: tuple[int, int], grid: tuple[int, int]
) -> None:
    assert grid_of(patches, size) == grid


def test_covered_patches_show_nothing() -> None:
    reader = ViTImageProcessor(size=(4, 6), image_mean=(0.2, 0.4, 0.6))
    pixels = np.full((3, 4, 6), 9, np.uint8)
    example = image_example(pixels, 7, ())
    gone = np.array([True, False, True, False, False, False, False])
    painted = covered(example, gone, reader=reader, grid=(2, 3)).pixels
    assert painted is not None
    pixels[:, 0:2, 2:4] = np.array([51, 102, 153], np.uint8)[:, None, None]
    assert_same_bits(painted.reshape(3, 4, 6), pixels, "whole numbers")
    assert abs(reader.values(pixels[None])[0, :, 0, 2]).max() < 0.01


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_a_picture_file_shows_patches_over_the_picture(
    run: Path, picture: Path, tmp_path: Path, ending: str
) -> None:
    pytest.importorskip("matplotlib")
    explanation = heedful.explain(run, str(picture), method=("gradient-x-input", "rollout"))
    wide = patched(explanation, rows=9, columns=10)  # more tokens than a text may have
    save_picture(explanation, tmp_path / f"a{ending}")
    save_picture(wide, tmp_path / f"b{ending}")
    if ending == ".png":
        with Image.open(tmp_path / "a.png") as drawn:
            assert min(drawn.size) > 300
    else:
        drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
        # Two panels of scores, one of each layer, one of rollout.
        assert drawing.count("<image ") == 2 + 2 + 1
        assert drawing.count("what the class token takes from") == 3


def patched(explanation: Explanation, rows: int, columns: int) -> Explanation:
    (side,) = explanation.sides
    assert side.patches is not None
    count = rows * columns
    size = count + 1
    tokens = (side.tokens[0], *[side.tokens[1]] * count)
    return replace(
        explanation,
        sides=(
            replace(
                side,
                tokens=tokens,
                patches=replace(side.patches, rows=rows, columns=columns),
            ),
        ),
        attention=tuple(
            replace(one, weights=np.ones((*one.weights.shape[:2], size, size), np.float32))
            for one in explanation.attention
        ),
        attributions=tuple(
            replace(one, scores=(tuple(map(float, range(size))),))
            for one in explanation.attributions
        ),
    )


def test_without_matplotlib_one_line_says_what_to_install(
    run: Path, picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    explanation = heedful.explain(run, str(picture), method="gradient-x-input")
    for module in ("matplotlib", "matplotlib.figure", "matplotlib.colors"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(heedful.UserError, match=r"pip install 'heedful\[plot\]'"):
        save_picture(explanation, tmp_path / "a.png")


def test_patches_have_the_colour_of_their_side() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_rgb

    over = tinted(np.array([[2.0, -1.0], [0.0, 1.0]]), (FOR, AGAINST))
    np.testing.assert_allclose(over[0, 0], (*to_rgb(FOR), 0.75))
    np.testing.assert_allclose(over[0, 1], (*to_rgb(AGAINST), 0.375))
    np.testing.assert_allclose(over[..., 3], [[0.75, 0.375], [0, 0.375]])
    assert not tinted(np.zeros((2, 2)), (FOR, AGAINST))[..., 3].any()
