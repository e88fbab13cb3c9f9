"""The table of docs/family.md of what each family has and supports is correct."""

import asyncio
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.exact import assert_same_bits
from tests.tiny_folders import ENCODERS, TOKENIZERS, write_folder

import heedful
from heedful import files
from heedful.batches import Batch
from heedful.checkpoints import runs
from heedful.compiled.int8 import is_supported
from heedful.compiled.int8_layers import calibration_rows
from heedful.compiled.kernels import encoder_kernel
from heedful.compiled.model import compile_model
from heedful.errors import UserError, as_arguments
from heedful.interop import export
from heedful.models import FAMILIES, Head
from heedful.models.loading import load_model
from heedful.models.model import Model
from heedful.training.examples import Examples

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[1] / "docs" / "family.md").read_text(encoding="utf-8")
CPU = torch.device("cpu")
IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11], [5, 12, 13, 14, 0, 0, 0]])
MASK = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
ROWS = [{"text": f"it is {colour}", "label": colour} for colour in ("red", "blue", "green")] * 2
TEXT = "it is so red"


def _table(first: str, second: str) -> dict[str, dict[str, str]]:
    """Read the table with these first two columns: each family's cells by column."""
    heading = re.escape(f"| {first} | {second} |")
    match = re.search(rf"^{heading}.*\n\|[-| ]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert match, f"docs/family.md has no table that begins with {first} and {second}"
    columns = _cells(match[0].partition("\n")[0])
    rows = [_cells(line) for line in match[1].splitlines()]
    return {
        re.sub(r"\[(.*)\]\(.*\)", r"\1", row[0]): dict(zip(columns, row, strict=True))
        for row in rows
    }


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


ABOUT = _table("family", "paper")
WORKS = _table("family", "compiled")


@pytest.fixture(scope="module", params=ENCODERS)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A tiny model of a family, and a run that was trained from it."""

    family: str
    run: Path
    folder: Path

    def body(self) -> Model:
        """Load the model; a check may modify it."""
        model: Model = load_model(self.folder, head="body", dropout=0.0)
        return model


@pytest.fixture(scope="module")
def subject(family: str, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Provide the folder of a tiny model, and a run."""
    folder = tmp_path_factory.mktemp(family)
    write_folder(family, folder / "model")
    subject = Subject(family=family, run=folder / "run", folder=folder / "model")
    _train(subject, subject.run, steps=2)
    return subject


def _train(subject: Subject, out: Path, **options: Any) -> None:
    quick = {"batch_size": 4, "precision": "fp32", "say": lambda line: None}
    options = {"model": str(subject.folder), **quick, **options}
    heedful.train("classify", train=ROWS, out=out, **options)


def test_every_family_has_its_rows(family: str) -> None:
    assert family in ABOUT, f"docs/family.md: the first table has no row {family!r}"
    assert family in WORKS, f"docs/family.md: the table of what works has no row {family!r}"


def test_the_page_says_which_heads_and_tokenizer(family: str) -> None:
    heads = [head for head in FAMILIES[family].models if head != "body"]
    assert ABOUT[family]["heads"] == ", ".join(heads)
    assert ABOUT[family]["tokenizer"].startswith(TOKENIZERS[family])


def _computed(model: Model) -> torch.Tensor:
    """Return the hidden states of tokens."""
    hidden: torch.Tensor = model(IDS, MASK).last_hidden_state
    return hidden[MASK.bool()].float()


def _compiled(subject: Subject) -> str | None:
    if encoder_kernel(torch.float32, CPU)[0] == "plain":
        pytest.skip("this CPU has no fast kernels")
    model = subject.body()
    twin, kernel, reason = compile_model(model)
    with torch.inference_mode():
        torch.testing.assert_close(_computed(twin), _computed(model), rtol=1e-4, atol=1e-4)
    return reason if kernel == "plain" else None


def _int8(subject: Subject) -> str | None:
    if not is_supported(CPU)[0]:
        pytest.skip(is_supported(CPU)[1])
    model = subject.body()
    rows = calibration_rows([5], [6], vocab_size=20, positions=model.max_positions)
    twin, kernel, reason = compile_model(model, lambda: rows)
    with torch.inference_mode():
        near = F.cosine_similarity(_computed(twin), _computed(model), dim=-1)
    assert near.min() > 0.97
    return reason if kernel == "plain" else None


def _recompute(subject: Subject) -> str | None:
    model = subject.body().train()
    if not model.supports_checkpointing:
        return f"--gradient-checkpointing: {type(model).__name__} has no blocks to compute again"
    gradients = []
    for recompute in (False, True):
        model.gradient_checkpointing = recompute
        model.zero_grad()
        _computed(model).square().sum().backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(*gradients)
    return None


def _chunks(subject: Subject) -> str | None:
    model = subject.body()
    config = type(model).changed_config(model.config, {"chunk_size_feed_forward": 2})
    chunked = type(model).from_config(config).eval()
    chunked.load_state_dict(model.state_dict())
    torch.testing.assert_close(_computed(chunked), _computed(model))
    return None


def _pruning(subject: Subject) -> str | None:
    model = subject.body()
    hide = torch.ones(model.head_masks()["head_mask"])
    hide[0, 1] = 0
    masked: torch.Tensor = model(IDS, MASK, head_mask=hide).last_hidden_state
    try:
        model.prune_heads({0: [1]})
    except UserError as error:
        return str(error)
    torch.testing.assert_close(_computed(model), masked[MASK.bool()])
    return None


def _packed(subject: Subject) -> str | None:
    model = subject.body().train()
    shapes, forward = [], model.embeddings.forward

    def seen(*inputs: Any, **options: Any) -> Any:
        hidden = forward(*inputs, **options)
        shapes.append(hidden.shape)
        return hidden

    model.embeddings.forward = seen  # no hook, for which padding is computed
    mask = MASK.clone()
    mask[1, 1:] = 0
    last = "only_last" in inspect.signature(model.forward).parameters
    chosen = model(IDS, mask, **{"only_last" if last else "only_first": True}).last_hidden_state
    del model.embeddings.forward
    places = mask.sum(1) - 1 if last else torch.zeros(len(mask), dtype=torch.long)
    every = model.eval()(IDS, mask).last_hidden_state
    torch.testing.assert_close(chosen, every.take_along_dim(places[:, None, None], 1))
    return None if shapes[0][0] == 1 else "padding is computed in training"


def _resume(subject: Subject) -> str | None:
    whole, cut = (subject.run.parent / name for name in ("whole", "cut"))
    _train(subject, whole, steps=4)
    fetch, calls = Examples.fetch, 0

    def stopping(examples: Examples, items: Any, epoch: int) -> Batch:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise RuntimeError("killed")
        return fetch(examples, items, epoch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Examples, "fetch", stopping)
        with pytest.raises(RuntimeError, match="killed"):
            _train(subject, cut, steps=4, checkpoint_every=1)
    assert calls == 4
    _train(subject, cut, steps=4, checkpoint_every=1, resume=True)
    weights = [files.read_tensors(run / "model.safetensors") for run in (whole, cut)]
    assert_same_bits(*weights, "stored")  # the same steps in the same order, on one machine
    return None


def _distillation(subject: Subject) -> str | None:
    try:
        _train(subject, subject.run.parent / "student", steps=1, teacher=str(subject.run))
    except UserError as error:
        return str(error)
    return None


def _student(subject: Subject) -> str | None:
    out, teacher = subject.run.parent / "short", str(subject.run)
    try:
        _train(subject, out, model="minilm", steps=1, teacher=teacher, student_layers=1)
    except UserError as error:
        return str(error).removeprefix(f"{teacher}: ")
    model = load_model(out)
    assert len(model.body.encoder.blocks) == 1
    return None


def _explain(subject: Subject) -> str | None:
    try:
        explanation = heedful.explain(subject.run, TEXT)
    except UserError as error:
        return str(error)
    assert any(score for score in explanation.attributions[0].scores)
    assert explanation.attention is not None
    return None


def _report(subject: Subject) -> str | None:
    try:
        report = heedful.report(subject.run, ROWS, say=lambda line: None)
    except UserError as error:
        return str(error)
    assert "accuracy" in report.html
    return None


def _serve(subject: Subject) -> str | None:
    pytest.importorskip("fastapi", reason="needs the extra [serve]")
    from tests.serving.inside import client_of

    from heedful.serving.loading import load
    from heedful.serving.service import Service
    from heedful.settings import ServeSettings

    settings = ServeSettings(precision="fp32", queue_seconds=1e6)

    async def ask() -> int:
        service = Service([load(str(subject.run), settings)], settings, on_failure=print)
        service.start()
        async with client_of(service) as client:
            while not service.ready:
                await asyncio.sleep(0.001)
            body = {"texts": [TEXT]}
            reply = await client.post("/api/runs/run/predict", json=body)
        await service.close()
        return reply.status_code

    assert asyncio.run(ask()) == 200
    return None


def _onnx(subject: Subject) -> str | None:
    pytest.importorskip("onnxscript", reason="needs the extra [onnx]")
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    return _exported(subject, "onnx")


def _openvino(subject: Subject) -> str | None:
    pytest.importorskip("openvino", reason="needs the extra [openvino]")
    return _exported(subject, "openvino")


def _exported(subject: Subject, form: str) -> str | None:
    run = subject.run.parent / f"for {form}"
    turn = ENCODERS.index(subject.family)
    heads = HEADS[turn % len(HEADS) :] + HEADS
    head = next(head for head in heads if head in FAMILIES[subject.family].models)
    write_folder(subject.family, run, head=head, num_hidden_layers=1)
    task, goal = GOALS[head]
    runs.write_record(run, runs.outside_record(task, goal, 40))
    files.write_manifest(run)
    try:
        check = export(run, subject.run.parent / form, form)
    except UserError as error:
        return str(error)
    assert check.difference < 1e-4
    return None


GOALS: dict[Head, tuple[str, dict[str, Any]]] = {
    "sequence": ("classify", {"labels": ["a", "b"], "multi_label": False}),
    "token": ("tag", {}),
    "span": ("answer", {}),
    "choice": ("choose", {}),
    "body": ("embed", {"pooling": "mean", "normalise": True}),
    "masked_lm": ("pretrain", {}),
}
HEADS = [*GOALS]
"""Of each family one is exported, of the next another: what a head adds is the same for all."""


CHECKS: dict[str, Callable[[Subject], str | None]] = {
    "compiled": _compiled,
    "int8": _int8,
    "packed": _packed,
    "recompute": _recompute,
    "chunks": _chunks,
    "pruning": _pruning,
    "resume": _resume,
    "distillation": _distillation,
    "student": _student,
    "explain": _explain,
    "report": _report,
    "serve": _serve,
    "ONNX": _onnx,
    "OpenVINO": _openvino,
}
"""By column: what returns why it does not work for a family, or None where it works."""


@pytest.mark.filterwarnings("ignore")  # of torch's exporter, about itself
@pytest.mark.parametrize("column", CHECKS)
def test_what_works(family: str, subject: Subject, column: str) -> None:
    reason = CHECKS[column](subject)
    assert WORKS[family][column] == ("no" if reason else "yes"), reason
    assert reason is None or reason in as_arguments(PAGE)


def test_the_page_has_the_columns_that_are_tested() -> None:
    assert {column for row in WORKS.values() for column in row} == {"family", *CHECKS}
