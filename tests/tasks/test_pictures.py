"""Images are trained on, evaluated and predicted as texts are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.exact import assert_same_bits

import heedful
from heedful import cli, files
from heedful.batches import Draw
from heedful.batches.images import shift_images
from heedful.compiled.int8 import is_supported
from heedful.compiled.kernels import encoder_kernel
from heedful.errors import UserError
from heedful.models import FAMILIES, ViTConfig, ViTForImageClassification, ViTModel
from heedful.settings import ColumnSettings
from heedful.training.optimize import adamw

Image = pytest.importorskip("PIL.Image", reason="needs the extra [images]")

COLOURS = {"blue": (0, 0, 200), "green": (0, 200, 0), "red": (200, 0, 0)}
QUICK: dict[str, Any] = {"batch_size": 4, "precision": "fp32", "say": lambda line: None}
TINY: dict[str, Any] = {
    **{"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"intermediate_size": 32, "image_size": 12, "patch_size": 4, "encoder_stride": 4},
    "initializer_range": 0.2,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder of three colours, with the files that file managers and git leave."""
    folder = tmp_path_factory.mktemp("data")
    draw = np.random.default_rng(0)
    for colour, pixel in COLOURS.items():
        (folder / colour).mkdir()
        for number in range(4):
            noise = draw.integers(0, 40, (10, 14, 3)) + np.array(pixel)
            Image.fromarray(noise.astype(np.uint8)).save(folder / colour / f"{number} ü.png")
    (folder / ".git").mkdir()
    (folder / "red" / ".hidden").write_text("no picture")
    (folder / "red" / "Thumbs.db").write_text("no picture")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the folder of a tiny ViT, as other programs write it."""
    folder = tmp_path_factory.mktemp("model") / "vit"
    torch.manual_seed(0)
    ViTForImageClassification(ViTConfig(**TINY, num_labels=5)).save_pretrained(folder)
    heedful.ViTImageProcessor(size=(12, 12)).save_pretrained(folder)
    return folder


def _train(data: Path, out: Path, **options: Any) -> Path:
    heedful.train("classify", train=data, out=out, **{"format": "images", **QUICK, **options})
    return out


@pytest.fixture(scope="module")
def run(data: Path, model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a run that has learnt the colours."""
    out = tmp_path_factory.mktemp("runs") / "colours"
    return _train(data, out, model=str(model), epochs=20, learning_rate=3e-3)


def test_it_learns_colours(data: Path, run: Path) -> None:
    scores = heedful.evaluate(run, data, say=lambda line: None)
    assert (scores["accuracy"], scores["items"]) == (1.0, 12)
    assert files.read_json(run / "heedful.json")["goal"]["labels"] == [*COLOURS]
    picture = data / "red" / "1 ü.png"
    predictor = heedful.load(run)
    for form in (str(picture), picture.read_bytes()):
        answer = predictor(form)
        assert (answer.label, answer.tokens_total, answer.tokens_used) == ("red", 10, 10)
    assert [answer.label for answer in predictor([str(picture), str(picture)])] == ["red"] * 2


def test_answers_stand_beside_the_truth(data: Path, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    heedful.evaluate(run, data, predictions=path, say=lambda line: None)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [row["truth"] for row in rows] == [label for label in COLOURS for _ in range(4)]
    assert rows[0]["picture"] == str(data / "blue" / "0 ü.png")


def test_answers_name_the_pictures_of_a_folder(
    data: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = [str(data / "blue" / "0 ü.png"), str(data / "blue" / "1 ü.png")]
    assert cli.run(["predict", str(run), "--input", str(data)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["picture"] for row in rows[:2]] == pictures
    predictor = heedful.load(run)
    assert [answer.picture for answer in predictor(pictures)] == pictures
    assert predictor(Path(pictures[0]).read_bytes()).picture is None


def test_a_model_from_scratch(data: Path, tmp_path: Path) -> None:
    sizes = {"preset": "mini", "image_size": 16, "patch_size": 8, "grey": True, "dropout": 0.1}
    run = _train(data, tmp_path / "run", steps=1, dev=data, **sizes)
    config = heedful.load_model(run).config
    expected = (16, 8, 1, 96, 0.1)
    assert expected == (
        *(config.image_size, config.patch_size, config.num_channels),
        *(config.hidden_size, config.hidden_dropout_prob),
    )
    assert heedful.load(run)(str(data / "red" / "1 ü.png")).tokens_total == 5


def test_pictures_of_another_size(data: Path, model: Path, tmp_path: Path) -> None:
    run = _train(data, tmp_path / "run", model=str(model), image_size=20, steps=1)
    assert heedful.load_model(run).config.image_size == 20
    assert heedful.load(run)(str(data / "red" / "1 ü.png")).tokens_total == 26
    before = heedful.load_model(model, head="body")
    assert before.config.image_size == 12


def test_a_stopped_run_goes_on_to_the_same_weights(data: Path, model: Path, tmp_path: Path) -> None:
    options = {"model": str(model), "steps": 4, "shift": 0.2, "checkpoint_every": 2}
    whole = _train(data, tmp_path / "whole", **options)
    stopped: list[str] = []

    def stop(line: str) -> None:
        stopped.append(line)
        if "step 2" in line or "steps of" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _train(data, tmp_path / "again", **options, say=stop)
    _train(data, tmp_path / "again", **options, resume=True)
    weights = [heedful.load_model(one).state_dict() for one in (whole, tmp_path / "again")]
    assert_same_bits(*weights, "same code")


@pytest.mark.parametrize("from_scratch", [False, True])
def test_a_model_from_scratch_learns_faster_and_its_head_as_fast(
    from_scratch: bool, data: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: dict[str, float] = {}

    def watched(*args: Any, **options: Any) -> torch.optim.AdamW:
        rates.update({name: options[name] for name in ("learning_rate", "head_learning_rate")})
        return adamw(*args, **options)

    monkeypatch.setattr("heedful.training.run.adamw", watched)
    small = {"preset": "mini", "image_size": 8, "patch_size": 4}
    start = small if from_scratch else {"model": str(model)}
    lines: list[str] = []
    _train(data, tmp_path / "run", **start, steps=1, say=lines.append)
    learnt = {"learning_rate": 7e-5, "head_learning_rate": 1.4e-3}
    fresh = {"learning_rate": 5e-4, "head_learning_rate": 5e-4}
    assert rates == pytest.approx(fresh if from_scratch else learnt)
    assert f"learning rate {'0.0005' if from_scratch else '7e-05'}, " in "".join(lines)


def test_pictures_are_moved_by_their_number_alone() -> None:
    pixels = np.arange(2 * 3 * 10 * 10, dtype=np.uint8).reshape(2, 3, 10, 10)
    draw = Draw(seed=1, epoch=2, rows=np.array([7, 9]), training=True)
    moved = shift_images(pixels, 0.3, draw)
    alone = Draw(seed=1, epoch=2, rows=np.array([9]), training=True)
    assert_same_bits(shift_images(pixels[1:], 0.3, alone), moved[1:], "whole numbers")
    assert (moved != pixels).any()
    assert_same_bits(shift_images(pixels, 0.0, draw), pixels, "whole numbers")
    one = np.zeros((1, 1, 10, 10), np.uint8)
    one[0, 0, 5, 5] = 1
    places = {
        tuple(
            np.argwhere(shift_images(one, 0.2, Draw(seed=0, epoch=e, rows=np.array([0])))[0, 0])[0]
        )
        for e in range(200)
    }
    assert places == {(row, column) for row in range(3, 8) for column in range(3, 8)}


def test_what_is_scored_stays_where_it_is(run: Path, data: Path) -> None:
    task = heedful.load(run).task
    moving = type(task)(labels=task.labels, multi_label=False, pictures=True, shift=0.5)
    reader = heedful.ViTImageProcessor(size=(12, 12))
    record = moving.from_texts([str(data / "red" / "1 ü.png")])[0]
    (fitted,) = moving.encode([record], reader, _fit(), labelled=False)
    batches = [
        moving.batch(
            [labelled(fitted.pieces[0])],
            reader,
            Draw(seed=0, epoch=0, rows=np.array([0]), training=learns),
        )
        for learns in (False, True)
    ]
    still, moved = (batch.inputs["pixel_values"] for batch in batches)
    assert_same_bits(still, reader(data / "red" / "1 ü.png")["pixel_values"], "one operation")
    assert (still != moved).any()


def labelled(example: Any) -> Any:
    from dataclasses import replace

    return replace(example, labels=(0.0,))


def _fit() -> Any:
    from heedful.task import LengthLimit

    return LengthLimit(max_length=10, long_text="head")


def test_the_compiled_form_computes_the_same(run: Path, data: Path) -> None:
    if encoder_kernel(torch.float32, torch.device("cpu"))[0] == "plain":
        pytest.skip("this CPU has no fast kernels")
    predictor = heedful.load(run, precision="fp32")
    assert predictor.kernel == "packed"
    pixels = torch.randn(3, 3, 12, 12)
    with torch.inference_mode():
        fast, plain = predictor.compiled.model(pixels).logits, predictor.model(pixels).logits
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)


def test_a_body_without_biases_compiles() -> None:
    from heedful.compiled.model import compile_model

    body = ViTModel(ViTConfig(**TINY, qkv_bias=False)).eval()
    pixels = torch.randn(2, 3, 12, 12)
    with torch.inference_mode():
        fast = compile_model(body).model(pixels)
        torch.testing.assert_close(fast.last_hidden_state, body(pixels).last_hidden_state)
        torch.testing.assert_close(fast.pooler_output, body(pixels).pooler_output)


def test_teacher_and_pruning(run: Path, data: Path, model: Path, tmp_path: Path) -> None:
    student = _train(data, tmp_path / "student", model=str(model), teacher=str(run), steps=1)
    assert (student / "model.safetensors").is_file()
    less = _train(data, tmp_path / "less", model=str(run), prune=0.25, steps=1)
    assert sum(map(len, heedful.load_model(less).config.pruned_heads.values())) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "model minilm: a text model"),
        ({"preset": "minni"}, "preset 'minni'.*did you mean 'mini'"),
        ({"preset": "mini", "image_size": 8}, "image_size 8 is smaller than patch_size 16"),
        (
            {"preset": "mini", "image_size": 20, "patch_size": 8},
            "image_size 20: must be a multiple of the patch size, 8",
        ),
        ({"image_size": 0}, "image_size 0: must be a whole number from 1 to 4,096"),
        ({"patch_size": 4}, "patch_size is for a model from scratch: give preset too"),
        ({"grey": True}, "grey is for a model from scratch: give preset too"),
        ({"shift": 0.6}, "shift 0.6: must be from 0 to 0.5"),
        ({"preset": "mini", "max_length": 64}, "max_length is for texts; leave it out"),
        ({"preset": "mini", "long_text": "head"}, "long_text is for texts; leave it out"),
        ({"preset": "mini", "fresh_pooler": True}, "fresh_pooler"),
        (
            {"preset": "mini", "model": "other"},
            "give preset to start from scratch, or model other to start from that model",
        ),
        ({"preset": "mini", "text": "x"}, "leave out column options"),
        ({"preset": "mini", "format": "text"}, "a folder; .*images with format images"),
    ],
)
def test_options_that_make_no_sense(
    data: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        _train(data, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_length_is_not_for_pictures(model: Path, data: Path) -> None:
    with pytest.raises(UserError, match="long_text is for texts"):
        heedful.load(model)("a.png", long_text="refuse")
    with pytest.raises(UserError, match="max_length is for texts"):
        heedful.evaluate(model, data, max_length=8)


def test_options_of_pictures_are_not_for_texts(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    options = {"preset": "mini", "image_size": 8, "shift": 0.1, "patch_size": 4, "grey": True}
    for option, value in options.items():
        with pytest.raises(UserError, match="is for images: give format images too"):
            heedful.train("classify", train=rows, out=tmp_path / "run", **{option: value})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="images"):
        heedful.train("regress", train=tmp_path, out=tmp_path / "run", format="images")


def test_a_model_of_pictures_reads_no_texts(model: Path, tmp_path: Path) -> None:
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    with pytest.raises(UserError, match="its model reads images; give one that reads texts"):
        heedful.train("classify", train=rows, model=str(model), out=tmp_path / "run", **QUICK)


def _folder(path: Path, **contents: bytes | None) -> Path:
    """Make a folder of files; contents of None make a folder."""
    for name, content in contents.items():
        file = path / name.replace("__", "/").replace("_", ".")
        if content is None:
            file.mkdir(parents=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({}, "no folder in it; give one with a folder of images for each class"),
        ({"a_png": b"x"}, "a.png: a file; .* must hold only a folder for each class"),
        ({"cat": None, "dog__a_png": b"x"}, "cat: no images in it"),
        ({"cat__a_png": b"x"}, "only 'cat'"),
        ({"cat__a_png": b"x", "dog__a_png": b""}, "cat/a.png: not an image in a supported format"),
    ],
    ids=["empty", "no classes", "empty class", "one class", "broken"],
)
def test_folders_that_are_wrong(
    tmp_path: Path, contents: dict[str, bytes | None], message: str
) -> None:
    folder = _folder(tmp_path / "data", **contents)
    folder.mkdir(exist_ok=True)
    with pytest.raises(UserError, match=message) as caught:
        _train(folder, tmp_path / "run", preset="mini", image_size=16)
    assert str(folder) in str(caught.value) or "only 'cat'" in message
    assert not (tmp_path / "run").exists()


def test_pictures_are_not_piped_in(run: Path) -> None:
    task = heedful.load(run).task
    with pytest.raises(UserError, match="images cannot be read from standard input"):
        task.read([Path("-")], ColumnSettings(format="text"), labelled=False)


def test_the_card_tells_of_pictures(run: Path) -> None:
    card = (run / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "It reads an image as 10 tokens." in card
    assert "heedful predict colours picture.png" in card
    assert "heedful evaluate colours --data FOLDER" in card


def test_other_labels_are_named(run: Path, data: Path, tmp_path: Path) -> None:
    picture = (data / "red" / "1 ü.png").read_bytes()
    folder = _folder(tmp_path / "data", pink__a_png=picture)
    with pytest.raises(UserError, match=r"pink/a\.png: label 'pink' is not one of the model's"):
        heedful.evaluate(run, folder, say=lambda line: None)
    with pytest.raises(UserError, match="no such folder"):
        heedful.evaluate(run, data / "gone", say=lambda line: None)
    with pytest.raises(UserError, match="a file; give a folder"):
        heedful.evaluate(run, data / "red" / "1 ü.png", say=lambda line: None)


def test_data_that_changed_is_another_run(data: Path, model: Path, tmp_path: Path) -> None:
    picture = (data / "red" / "1 ü.png").read_bytes()
    folder = _folder(tmp_path / "data", a__a_png=picture, b__a_png=picture)
    _train(folder, tmp_path / "run", model=str(model), steps=1)
    (folder / "a" / "b.png").write_bytes(picture)
    with pytest.raises(UserError, match="other training data: its files have changed"):
        _train(folder, tmp_path / "run", model=str(model), steps=1, resume=True)


def test_the_page_of_families_says_what_works() -> None:
    page = (Path(__file__).parents[2] / "docs" / "family.md").read_text(encoding="utf-8")
    heading, row = (
        next(line for line in page.splitlines() if line.startswith(start)).strip("|").split("|")
        for start in ("| family | compiled |", "| vit |")
    )
    cells = {name.strip(): cell.strip() for name, cell in zip(heading, row, strict=True)}
    # Each but the first two has a test here, or in those of exports, servers and explanations.
    assert cells.pop("family") == "vit"
    assert cells.pop("packed") == "-"  # pictures have no padding
    assert set(cells.values()) == {"yes"}
    about = next(line for line in page.splitlines() if line.startswith("| [vit](#vit) |"))
    assert about.split("|")[3].strip() == ", ".join(
        h for h in FAMILIES["vit"].models if h != "body"
    )


def test_report_and_comparison(run: Path, data: Path, tmp_path: Path) -> None:
    report = heedful.report(run, data, say=lambda line: None)
    assert repr(report) == "Report()"
    report.save(tmp_path / "report.html")
    assert "red" in (tmp_path / "report.html").read_text(encoding="utf-8")
    same = heedful.compare(run, run, data, say=lambda line: None)
    assert same.to_dict()["items"] == 12


def test_a_student_starts_from_layers(run: Path, data: Path, tmp_path: Path) -> None:
    student = _train(data, tmp_path / "student", teacher=str(run), student_layers=1, steps=1)
    assert heedful.load_model(student).config.num_hidden_layers == 1


def test_less_memory(data: Path, model: Path, tmp_path: Path) -> None:
    plain = _train(data, tmp_path / "plain", model=str(model), steps=1)
    less = _train(data, tmp_path / "less", model=str(model), steps=1, gradient_checkpointing=True)
    weights = [heedful.load_model(one).state_dict() for one in (plain, less)]
    torch.testing.assert_close(*weights)


def test_int8(run: Path, data: Path) -> None:
    there, reason = is_supported(torch.device("cpu"))
    if not there:
        pytest.skip(reason)
    pictures = [str(path) for path in sorted(data.glob("*/*.png"))]
    whole = heedful.load(run, precision="int8")
    assert whole.kernel == "int8"
    wide = heedful.load(run, precision="fp32")
    for one, other in zip(whole(pictures), wide(pictures), strict=True):
        assert one.label == other.label
        assert one.scores == pytest.approx(other.scores, abs=0.05)
