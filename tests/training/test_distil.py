"""A student learns its teacher's outputs, for every task."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests import tiny
from tests.exact import assert_same_bits
from tests.golden.copies import LATEST
from tests.tiny_folders import ENCODERS, write_folder

import heedful
from heedful.batches import Draw, Example
from heedful.checkpoints import runs
from heedful.checkpoints.runs import read_record
from heedful.commands.teacher_targets import generate_targets
from heedful.errors import UserError
from heedful.files import sha256
from heedful.interop import predictable_record
from heedful.models import (
    FAMILIES,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    Transformer,
    TransformerConfig,
    load_model,
)
from heedful.settings import TeacherSettings
from heedful.task import LengthLimit, Start
from heedful.tasks import read_task
from heedful.tokens import load_tokenizer
from heedful.training.distil import (
    Distillation,
    check_depth,
    distillation,
    spread,
    teacher_print,
)

DATA = LATEST / "data"
QUICK: dict[str, Any] = {
    "batch_size": 8,
    "learning_rate": 5e-3,
    "head_learning_rate": 1e-2,
    "precision": "fp32",
    "say": lambda line: None,
}
TEACHERS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("classify", "classify", "classify.csv", {}),
    ("classify", "many", "many.csv", {"label_separator": ";"}),
    ("classify", "pair", "pairs.csv", {"text_pair": "reply"}),
    ("regress", "regress", "regress.csv", {}),
    ("tag", "tag", "tag.conll", {}),
    ("answer", "answer", "answer.jsonl", {"stride": 6}),
    ("choose", "choose", "choose.jsonl", {}),
    ("embed", "embed", "embed.csv", {"text_pair": "other"}),
    ("pretrain", "pretrain", "pretrain.txt", {"max_length": 24}),
    ("pretrain", "masked", "pretrain.txt", {"max_length": 24, "objective": "mlm"}),
    ("generate", "writer", "generate.txt", {}),
]


@pytest.mark.parametrize(
    ("total", "kept", "blocks"),
    [
        (12, 6, [0, 2, 4, 7, 9, 11]),  # those of Sanh et al. 2019
        (6, 3, [0, 2, 5]),
        (6, 5, [0, 1, 2, 4, 5]),
        (2, 1, [0]),
        (24, 2, [0, 23]),
    ],
)
def test_layers_are_spread(total: int, kept: int, blocks: list[int]) -> None:
    assert spread(total, kept) == blocks


@pytest.mark.parametrize(
    ("model", "depth"),
    [
        (BertModel(BertConfig(**tiny.SIZES | {"num_hidden_layers": 4})), "num_hidden_layers"),
        (
            DistilBertModel(DistilBertConfig(dim=24, n_layers=4, n_heads=4, hidden_dim=8)),
            "n_layers",
        ),
    ],
)
def test_blocks_that_are_kept_keep_their_weights_and_heads(model: Any, depth: str) -> None:
    model.prune_heads({1: [0], 3: [2, 3]})
    before = [block.state_dict() for block in model.encoder.blocks]
    model.keep_blocks([0, 3])
    assert getattr(model.config, depth) == 2
    assert model.config.pruned_heads == {1: [2, 3]}
    for block, old in zip(model.encoder.blocks, (before[0], before[3]), strict=True):
        assert_same_bits(block.state_dict(), old, "moved")


@pytest.mark.parametrize("family", ENCODERS)
def test_a_student_of_every_family_is_read_again(family: str, tmp_path: Path) -> None:
    write_folder(family, tmp_path / "teacher")
    model = load_model(tmp_path / "teacher")
    if model.body.num_blocks == 0:
        with pytest.raises(UserError, match="--student-layers: the teacher has no layers"):
            check_depth(1, model.body.num_blocks)
        return
    check_depth(1, model.body.num_blocks)
    model.body.keep_blocks([1])
    model.save_pretrained(tmp_path / "student")
    again = load_model(tmp_path / "student")
    ids = torch.tensor([[5, 6, 7, 8]])
    assert again.config == model.config
    assert len(again.body.encoder.blocks) == 1
    assert_same_bits(again(ids).logits, model(ids).logits, "stored")


@pytest.mark.parametrize(
    ("task", "run", "file", "options"), TEACHERS, ids=[teacher[1] for teacher in TEACHERS]
)
def test_every_task_has_a_teacher(
    task: str, run: str, file: str, options: dict[str, Any], tmp_path: Path
) -> None:
    heedful.train(
        task,
        train=DATA / file,
        out=tmp_path / "run",
        teacher=LATEST / run,
        student_layers=1,
        hidden_weight=0.5,
        steps=2,
        **QUICK,
        **options,
    )
    record = read_record(tmp_path / "run")
    assert record.teacher is not None
    assert record.teacher["sha256"] == sha256(LATEST / run / "model.safetensors")
    assert record.settings["model"] == record.settings["teacher"] == str(LATEST / run)
    assert load_model(tmp_path / "run").config.num_hidden_layers == 1


def _pretrained(family: str, objective: Any, folder: Path) -> dict[str, Any]:
    """Pre-train a tiny model, and return options to learn from it."""
    write_folder(family, folder / "model", max_position_embeddings=32)
    options: dict[str, Any] = {name: QUICK[name] for name in ("batch_size", "precision", "say")}
    options |= {"train": DATA / "pretrain.txt", "objective": objective, "max_length": 24}
    heedful.train(
        "pretrain", model=str(folder / "model"), out=folder / "teacher", steps=1, **options
    )
    return options | {"model": str(folder / "model"), "teacher": folder / "teacher"}


def test_a_teacher_in_shards_is_known_by_all_of_them(tmp_path: Path) -> None:
    teacher = shutil.copytree(LATEST / "classify", tmp_path / "teacher")
    weights = load_file(teacher / "model.safetensors")
    (teacher / "model.safetensors").unlink()
    shards = {f"model-0000{half}-of-00002.safetensors": [*weights][half::2] for half in (0, 1)}
    for shard, names in shards.items():
        save_file({name: weights[name] for name in names}, teacher / shard)
    index = {"weight_map": {name: shard for shard, names in shards.items() for name in names}}
    (teacher / "model.safetensors.index.json").write_text(json.dumps(index))
    settings = TeacherSettings(teacher=teacher)
    before = teacher_print(settings)
    assert before is not None
    assert before["file"] == str(teacher)
    assert before["bytes"] == sum((teacher / shard).stat().st_size for shard in shards)

    last = teacher / [*shards][1]
    last.write_bytes(last.read_bytes()[:-1] + b"x")
    after = teacher_print(settings)
    assert after is not None
    assert after["sha256"] != before["sha256"]


def test_the_order_of_sentences_is_learnt_from_a_teacher(tmp_path: Path) -> None:
    options = _pretrained("albert", "sop", tmp_path)
    heedful.train("pretrain", out=tmp_path / "run", steps=2, **options)
    assert read_record(tmp_path / "run").teacher is not None


def test_words_in_any_order_are_not_learnt_from_a_teacher(tmp_path: Path) -> None:
    """They are read in several calls, each with the memory of the last."""
    options = _pretrained("xlnet", "plm", tmp_path)
    with pytest.raises(UserError, match=r"^teacher: train pretrain cannot learn from"):
        heedful.train("pretrain", out=tmp_path / "run", steps=2, **options)
    assert not (tmp_path / "run").exists()


def test_a_writer_keeps_layers_of_both_its_stacks(tmp_path: Path) -> None:
    options = {name: value for name, value in QUICK.items() if name != "head_learning_rate"}
    heedful.train(
        "generate",
        train=DATA / "generate.csv",
        out=tmp_path / "run",
        teacher=LATEST / "replies",
        student_layers=1,
        steps=2,
        **options,
    )
    config = load_model(tmp_path / "run").config
    assert config.encoder.num_hidden_layers == config.decoder.num_hidden_layers == 1

    sizes = {"d_model": 16, "encoder_layers": 3, "decoder_layers": 3, "vocab_size": 20}
    inner = {"encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    translator = Transformer(TransformerConfig(**sizes, **inner, **heads)).eval()
    translator.prune_heads({2: [1]}, decoder_heads={0: [3]}, cross_attn_heads={2: [0]})
    translator.keep_blocks([0, 2])
    translator.save_pretrained(tmp_path / "translator")
    again = load_model(tmp_path / "translator")
    assert again.config == translator.config
    assert (again.num_blocks, again.config.pruned_heads) == (2, {1: [1]})
    ids, labels = torch.tensor([[5, 6, 7, 0]]), torch.tensor([[8, 9, 0]])
    assert_same_bits(
        again(ids, labels=labels).logits, translator(ids, labels=labels).logits, "stored"
    )


def _rotated(tmp_path: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the rows that the teacher was trained on, and the same with wrong labels."""
    with (DATA / "classify.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    wrong = {"animal": "food", "food": "place", "place": "animal"}
    return rows, [{**row, "label": wrong[row["label"]]} for row in rows]


@pytest.mark.parametrize(("weight", "accuracy"), [(1.0, 1.0), (0.0, 0.0)])
def test_a_student_believes_its_teacher_by_weight(
    tmp_path: Path, weight: float, accuracy: float
) -> None:
    right, wrong = _rotated(tmp_path)
    heedful.train(
        "classify",
        train=wrong,
        out=tmp_path / "run",
        model=str(LATEST / "body"),
        teacher=LATEST / "classify",
        teacher_weight=weight,
        epochs=12,
        dropout=0.0,
        **QUICK,
    )
    assert heedful.evaluate(tmp_path / "run", right)["accuracy"] == accuracy


def _lesson(name: str, **weights: float) -> tuple[Distillation, Any, Any, list[Any]]:
    """Return how a run teaches, a student in float64, its tokenizer, and eight examples."""
    record = read_record(LATEST / name)
    task, tokenizer = read_task(record), load_tokenizer(LATEST / name)
    teacher = load_model(LATEST / name).double().eval()
    torch.manual_seed(0)
    student = load_model(LATEST / name).double().train()
    with torch.no_grad():
        for parameter in student.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    rows = [("the red cat sleeps", "animal"), ("the very green bread tastes good", "food")] * 4
    records = [
        replace(one, labels=(label,))
        for one, (_, label) in zip(task.from_texts([text for text, _ in rows]), rows, strict=True)
    ]
    fitted = task.encode(
        records, tokenizer, LengthLimit(max_length=32, long_text="head"), labelled=True
    )
    examples = [example for one in fitted for example in one.pieces]
    return Distillation(task=task, teacher=teacher, **weights), student, tokenizer, examples


def test_the_loss_is_that_of_the_equation_and_adds_up() -> None:
    lesson, student, tokenizer, examples = _lesson("classify", weight=0.7, hidden_weight=0.3)

    def batch(rows: list[int]) -> Any:
        draw = Draw(seed=0, epoch=0, rows=np.asarray(rows))
        return lesson.task.batch([examples[row] for row in rows], tokenizer, draw)

    whole = batch([*range(8)])
    mean = (lesson.loss(student, whole) / lesson.loss_divisor(whole)).sum()
    gradients = torch.autograd.grad(mean, list(student.parameters()), allow_unused=True)

    inputs, labels = whole.inputs, whole.targets["labels"]
    mine = student(**inputs, output_hidden_states=True)
    with torch.no_grad():
        other = lesson.teacher(**inputs, output_hidden_states=True)
    told, wanted = ((x.logits / 2).softmax(-1) for x in (mine, other))
    hard = -mine.logits.log_softmax(-1)[range(8), labels].mean()
    soft = 4 * (wanted * (wanted.log() - told.log())).sum(-1).mean()
    states = [x.hidden_states[-1][inputs["attention_mask"]] for x in (mine, other)]
    hidden = 1 - torch.nn.functional.cosine_similarity(*states, dim=-1).mean()
    torch.testing.assert_close(mean, 0.3 * hard + 0.7 * soft + 0.3 * hidden)
    assert not any(parameter.grad is not None for parameter in lesson.teacher.parameters())

    parts = [batch([0, 1, 2]), batch([3, 4, 5, 6, 7])]
    count = sum(lesson.loss_divisor(part) for part in parts)
    share = sum((lesson.loss(student, part) / count).sum() for part in parts)
    assert isinstance(share, torch.Tensor)
    torch.testing.assert_close(share, mean)
    summed = torch.autograd.grad(share, list(student.parameters()), allow_unused=True)
    for one, right in zip(summed, gradients, strict=True):
        if right is not None:
            torch.testing.assert_close(one, right)


@pytest.mark.parametrize(("family", "other"), [("roberta", "bert"), ("bert", "roberta")])
def test_a_teacher_counts_positions_as_its_family_does(
    family: str, other: str, tmp_path: Path
) -> None:
    """RoBERTa counts from 2, BERT from 0, and sequences of several texts have positions."""
    write_folder("roberta", tmp_path / "reader")
    tokenizer = load_tokenizer(tmp_path / "reader")
    folders = {}
    for name in (family, other):
        sizes = tiny.SIZES | {"vocab_size": len(tokenizer), "pad_token_id": 1}
        sizes |= {"max_position_embeddings": 32}
        torch.manual_seed(len(name))
        folders[name] = tmp_path / f"{name}-model"
        kind = FAMILIES[name].model_class("masked_lm")
        kind.from_config(FAMILIES[name].config_class()(**sizes)).save_pretrained(folders[name])
        tokenizer.save_pretrained(folders[name])
    student = load_model(folders[other], head="masked_lm")
    task = replace(
        read_task(predictable_record(folders[family])), first_position=student.first_position
    )
    start = Start(tokenizer=tokenizer, model=student, max_length=20)
    settings = TeacherSettings(teacher=folders[family], teacher_weight=1.0)
    lesson = distillation(task, settings, start, torch.device("cpu"), torch.float32)
    teacher = load_model(folders[family]).eval()

    begin, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    texts = [[begin, *range(10, 16), end], [begin, *range(30, 35), end]]
    batch = task.batch(
        [Example(ids=np.array([*texts[0], *texts[1]], dtype=np.int32))],
        tokenizer,
        Draw(seed=0, epoch=0, rows=np.array([0])),
    )
    asked: list[Any] = []
    lesson.teacher.register_forward_hook(lambda *call: asked.append(call[-1].logits))
    lesson.loss(student, batch)
    ids, places = batch.inputs["input_ids"][0], batch.inputs["positions"]
    size = len(texts[0])
    with torch.no_grad():
        alone = [teacher(part[None]).logits[0] for part in (ids[:size], ids[size:])]
    torch.testing.assert_close(asked[0], torch.cat(alone)[places])


def test_the_teacher_only_answers() -> None:
    """It has no dropout, learns nothing, and computes as fast as it can."""
    record = read_record(LATEST / "classify")
    start = Start(
        tokenizer=load_tokenizer(LATEST / "classify"),
        model=load_model(LATEST / "classify", dropout=0.5).train(),
        max_length=32,
    )
    settings = TeacherSettings(teacher=LATEST / "classify", temperature=3, teacher_weight=0.25)
    lesson = distillation(read_task(record), settings, start, torch.device("cpu"), torch.float64)
    parameters = list(lesson.teacher.parameters())
    assert not lesson.teacher.training
    assert not any(parameter.requires_grad for parameter in parameters)
    assert {parameter.dtype for parameter in parameters} == {torch.float64}
    assert (lesson.temperature, lesson.weight, lesson.hidden_weight) == (3, 0.25, 0)
    assert start.model.training


def test_a_run_that_is_stopped_goes_on_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def learn(out: Path, **more: Any) -> str:
        heedful.train(
            "classify",
            train=DATA / "classify.csv",
            out=out,
            teacher=LATEST / "classify",
            student_layers=1,
            dropout=0.1,
            steps=9,
            checkpoint_every=3,
            **QUICK,
            **more,
        )
        return sha256(out / "model.safetensors")

    whole = learn(tmp_path / "whole")
    append = runs.append_metrics

    def dying(folder: Path, row: dict[str, object]) -> None:
        append(folder, row)
        if row["step"] == 5:
            raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(runs, "append_metrics", dying)
        with pytest.raises(MemoryError):
            learn(tmp_path / "run")
    assert learn(tmp_path / "run", resume=True) == whole


@pytest.mark.parametrize(
    ("task", "run", "options"),
    [
        (task, run, (file, more))
        for task, run, file, more in TEACHERS
        if run in ("embed", "regress")
    ],
)
def test_no_temperature_of_numbers(
    task: str, run: str, options: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    file, more = options
    more = QUICK | more | {"teacher": LATEST / run, "temperature": 3.0, "steps": 1}
    message = f"temperature is for probabilities; a teacher of train {task} gives none"
    with pytest.raises(UserError, match=message):
        heedful.train(task, train=DATA / file, out=tmp_path / "run", **more)


@pytest.mark.parametrize("task", ["embed", "answer"])
def test_names_that_a_model_has_left_are_no_labels(task: str, tmp_path: Path) -> None:
    """A student of a task without labels starts from a run that sorts texts."""
    files = {run: (file, more) for _, run, file, more in TEACHERS}
    file, more = files[task]
    heedful.train(
        task,
        train=DATA / file,
        out=tmp_path / "run",
        model=str(LATEST / "classify"),
        teacher=LATEST / task,
        steps=1,
        **QUICK,
        **more,
    )
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_a_tagger_of_another_program_teaches_by_its_answers(tmp_path: Path) -> None:
    """The teacher is a run without ``heedful.json``."""
    shutil.copytree(LATEST / "tag", tmp_path / "tagger")
    (tmp_path / "tagger" / runs.RECORD).unlink()
    with pytest.raises(UserError, match=r"does not say what its tags mean.*predict --plain"):
        heedful.train(
            "tag",
            train=DATA / "tag.conll",
            out=tmp_path / "run",
            model=str(LATEST / "body"),
            teacher=tmp_path / "tagger",
            **QUICK,
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 2.0}, "temperature is for learning from a run: give teacher too"),
        ({"teacher": "regress"}, "is a run of train regress; train classify learns from"),
        ({"teacher": "many"}, "was trained with multi_label True; this run has False"),
        ({"teacher": "pair"}, "was trained with pairs True; this run has False"),
        ({"teacher": "body"}, "not a heedful run"),
        ({"teacher": "classify", "model": "minilm-like"}, "has another tokenizer than model"),
        ({"teacher": "classify", "labels": "food,animal,place"}, "labels animal,food,place"),
        ({"teacher": "classify", "student_layers": 2}, "the teacher has 2; give 1 to 1"),
        ({"teacher": "classify", "student_layers": 1, "model": "body"}, "give one of them"),
        ({"teacher": "classify", "teacher_weight": 1.5}, "teacher_weight 1.5"),
        ({"teacher": "classify", "model": "narrow", "hidden_weight": 1}, "has width 16, the"),
        ({"teacher": "classify", "model": "long"}, "reads 32 tokens at once; give max_length 32"),
    ],
)
def test_a_teacher_that_does_not_suit_is_refused(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    body = LATEST / "body"
    torch.manual_seed(0)
    sizes = {"vocab_size": 134, "num_hidden_layers": 1, "num_attention_heads": 2}
    for name, positions in (("minilm-like", 32), ("narrow", 32), ("long", 64)):
        narrow = BertConfig(
            **sizes, hidden_size=8, intermediate_size=8, max_position_embeddings=positions
        )
        BertModel(narrow).save_pretrained(tmp_path / name)
        tokens = (body / "vocab.txt").read_text(encoding="utf-8")
        if name == "minilm-like":
            tokens = tokens.replace("cat\n", "cats\n", 1)
        (tmp_path / name / "vocab.txt").write_text(tokens, encoding="utf-8")
    given = dict(options)
    if "teacher" in given:
        given["teacher"] = LATEST / given["teacher"]
    model = given.pop("model", None)
    if model is not None:
        given["model"] = str(LATEST / model if (LATEST / model).is_dir() else tmp_path / model)
    elif "student_layers" not in given:
        given["model"] = str(body)
    with pytest.raises(UserError, match=message):
        heedful.train(
            "classify", train=DATA / "classify.csv", out=tmp_path / "run", steps=1, **QUICK, **given
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("task", "run"), [("translate", "translate"), ("generate", "replies")])
@pytest.mark.parametrize("weight", [None, 0.5])
def test_what_the_teacher_writes_is_learnt(
    task: str, run: str, weight: float | None, tmp_path: Path
) -> None:
    texts = [f"der Hund ist {'sehr ' * number}rot." for number in range(20)]
    data = tmp_path / "train.jsonl"
    lines = [json.dumps({"text": text, "label": "no idea."}) + "\n" for text in texts]
    data.write_text("".join(lines), encoding="utf-8")
    settings: dict[str, Any] = {} if task == "translate" else {"model": str(LATEST / "body")}
    teaching = TeacherSettings(teacher=LATEST / run, teacher_weight=weight)
    recipe = replace(tiny.recipe(task, [data], out=tmp_path / "run", **settings), teaching=teaching)
    (tmp_path / "run").mkdir()
    teacher = heedful.load(LATEST / run)
    made = generate_targets(teacher.task, recipe, lambda line: None)
    (file,) = made.data.train
    pairs = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [pair["text"] for pair in pairs] == texts
    written = [answer.plain() for answer in teacher(texts)]
    assert "no idea." not in written
    if weight is None:
        assert [pair["label"] for pair in pairs] == written
    else:
        taught = [pair["label"] == text for pair, text in zip(pairs, written, strict=True)]
        assert 4 <= sum(taught) <= 16
        rest = {pair["label"] for pair, one in zip(pairs, taught, strict=True) if not one}
        assert rest == {"no idea."}
    assert (
        generate_targets(teacher.task, recipe, pytest.fail) == made
    )  # what is there is not written again


def test_a_translator_learns_from_what_its_teacher_writes(tmp_path: Path) -> None:
    """The data has no translations: all targets are the teacher's."""
    sources = (DATA / "translate.de").read_text(encoding="utf-8").splitlines()
    rows = [{"text": source, "label": "no idea."} for source in sources]
    options: dict[str, Any] = {"out": tmp_path / "run", "teacher": LATEST / "translate", **QUICK}
    del options["head_learning_rate"]
    heedful.train("translate", train=rows, model=str(LATEST / "translate"), steps=4, **options)
    assert not (tmp_path / "run" / "retold").exists()
    truth = [
        {"text": one, "label": other}
        for one, other in zip(
            sources, (DATA / "translate.en").read_text(encoding="utf-8").splitlines(), strict=True
        )
    ]
    assert heedful.evaluate(tmp_path / "run", truth)["bleu"] > 50
    with pytest.raises(UserError, match="temperature is for teachers that give scores; this"):
        heedful.train("translate", train=rows, temperature=1.0, **options | {"overwrite": True})


def test_what_a_translator_has_from_its_teacher_is_refused(tmp_path: Path) -> None:
    files = [DATA / "translate.de", DATA / "translate.en"]
    options: dict[str, Any] = {"teacher": LATEST / "translate", "student_layers": 1, "steps": 1}
    with pytest.raises(UserError, match="starts from teacher, label_smoothing from scratch: give"):
        heedful.train(
            "translate", train=files, out=tmp_path / "run", label_smoothing=0.4, **options
        )
    assert not (tmp_path / "run").exists()


def test_a_run_that_a_teacher_wrote_for_names_the_data_that_was_given(tmp_path: Path) -> None:
    data, run = tmp_path / "pairs.csv", tmp_path / "run"
    data.write_text("en,de\nno idea.,Das hund ist rot!\n" * 8, encoding="utf-8")
    options: dict[str, Any] = {"train": data, "text": "de", "label": "en", "out": run}
    options |= {"model": str(LATEST / "translate"), "teacher": LATEST / "translate", **QUICK}
    del options["head_learning_rate"]
    heedful.train("translate", steps=2, **options)
    record = read_record(run)
    assert [file["file"] for file in record.data] == [str(data)]
    names = ("train", "text", "label")
    assert [record.settings[name] for name in names] == [[str(data)], "de", "en"]
    said: list[str] = []
    heedful.train("translate", steps=2, **options | {"resume": True, "say": said.append})
    assert said == [f"{run} is finished; nothing to do"]
