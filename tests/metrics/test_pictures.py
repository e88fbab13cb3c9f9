import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from heedful.errors import UserError
from heedful.metrics import ClassificationScores, save_confusion_picture
from heedful.metrics.pictures import _percent, _text_colour


def _scores(labels: list[str]) -> dict[str, Any]:
    size = len(labels)
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(20 * size, size, generator=generator).softmax(-1)
    scores = ClassificationScores(labels)
    scores.update(probabilities, torch.randint(0, size, (20 * size,), generator=generator))
    return scores.compute()


@pytest.mark.parametrize("size", [2, 6, 30])
@pytest.mark.parametrize("length", [1, 60])
def test_the_whole_matrix_is_in_the_picture(tmp_path: Path, size: int, length: int) -> None:
    labels = [str(number).zfill(length) for number in range(size)]
    save_confusion_picture(_scores(labels), tmp_path / "matrix.png")
    pixels = imread(tmp_path / "matrix.png")
    assert pixels.shape[0] > 60 * size
    # Nothing reaches the edge, so no name is cut off.
    for edge in (pixels[:15], pixels[-15:], pixels[:, :15], pixels[:, -15:]):
        assert (edge == 1).all()


@pytest.mark.filterwarnings("error")
def test_an_svg_holds_the_text_and_is_the_same_every_time(tmp_path: Path) -> None:
    scores = _scores(["costs $5 to $9", "a & <b>", "質問"])
    for name in ("one.svg", "two.SVG"):
        save_confusion_picture(scores, tmp_path / name)
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    visible = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    for shown in ("costs $5 to $9", "a &amp; &lt;b&gt;", "質問", "predicted as", "60 items"):
        assert shown in visible
    assert text == (tmp_path / "two.SVG").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1e-9, "<1"),
        (0.004, "<1"),
        (0.006, "1"),
        (0.5, "50"),
        (0.994, "99"),
        (0.999, ">99"),
        (1, "100"),
    ],
)
def test_no_share_is_rounded_to_nothing_or_to_all(share: float, text: str) -> None:
    assert _percent(share) == text


def _luminance(colour: Any) -> float:
    """Relative luminance as WCAG 2 defines it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_numbers_stand_out_from_every_shade() -> None:
    for share in (number / 100 for number in range(101)):
        shade = _luminance(mpl.colormaps["Blues"](share))
        ink = _luminance(_text_colour(share))
        assert (max(shade, ink) + 0.05) / (min(shade, ink) + 0.05) > 4, share


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in \.png or \.svg"):
        save_confusion_picture(_scores(["a", "b"]), tmp_path / "matrix.jpg")
    with pytest.raises(UserError, match="there is no folder"):
        save_confusion_picture(_scores(["a", "b"]), tmp_path / "absent" / "matrix.png")


def test_multi_label_scores_have_no_matrix(tmp_path: Path) -> None:
    scores = ClassificationScores(["a", "b"], multi_label=True)
    scores.update(torch.tensor([[0.9, 0.1]]), torch.tensor([[1, 0]]))
    with pytest.raises(UserError, match="one label has a confusion matrix"):
        save_confusion_picture(scores.compute(), tmp_path / "matrix.png")


def test_without_matplotlib_the_command_to_install_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = _scores(["a", "b"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'heedful\[plot\]'"):
        save_confusion_picture(scores, tmp_path / "matrix.png")


def test_scores_alone_do_not_import_matplotlib() -> None:
    program = "import sys, heedful.metrics; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
