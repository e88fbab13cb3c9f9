"""Permutation language models: which tokens are predicted, what they see, and the answers."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny_folders import write_folder

import heedful
from heedful import files
from heedful.batches import Draw, Example
from heedful.batches.corpus import Corpus, TokenizedDocument, write_corpus
from heedful.batches.masking import mask_rule
from heedful.batches.permuting import LONGEST_SPAN, permutation_mask, prediction_order
from heedful.batches.sentence_pairs import Frame, single_document_sequences
from heedful.checkpoints import runs
from heedful.errors import UserError
from heedful.interop import export
from heedful.models.loading import load_model
from heedful.tasks.objectives.plm import PermutedWords
from heedful.tokens import load_encoder_tokenizer

THINGS = {"apple": "red", "grass": "green", "sky": "blue", "coal": "black", "snow": "white"}
T = 40
OBJECTIVE = PermutedWords(segment=T // 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a tiny untrained XLNet."""
    folder = tmp_path_factory.mktemp("xlnet") / "model"
    write_folder("xlnet", folder)
    return folder


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = random.Random(0)
    documents = [
        "\n".join(f"the {thing} is {THINGS[thing]} ." for thing in draw.choices([*THINGS], k=3))
        for _ in range(12)
    ]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n\n".join(documents) + "\n")
    return path


def _batch(folder: Path, rows: int = 2, first: int = 0) -> tuple[Any, Any]:
    tokenizer = load_encoder_tokenizer(folder)
    ids = np.array(
        [*(10 + np.arange(T - 2) % 30), 4, 3], dtype=np.int32
    )  # the last two are special
    examples = [Example(ids=ids[-T + 5 * row :]) for row in range(first, rows)]
    rule = mask_rule(tokenizer, share=1 / 6, max_predictions=None)
    draw = Draw(seed=1, epoch=0, rows=np.arange(first, rows))
    return OBJECTIVE.training_batch(examples, tokenizer, rule, draw), tokenizer


def test_spans_take_their_share_in_a_random_order() -> None:
    ordinary = np.ones(3000, np.bool_)
    ordinary[::50] = False
    drawn = prediction_order(ordinary, 1 / 6, seed=0, epoch=0, index=0)
    assert not drawn[~ordinary].any()
    count = np.count_nonzero(drawn)
    assert sorted(drawn[drawn > 0]) == [*range(1, count + 1)]
    assert count / np.count_nonzero(ordinary) == pytest.approx(1 / 6, abs=0.02)
    chosen = np.flatnonzero(drawn[ordinary])
    ends = np.flatnonzero(np.diff(chosen) > 1)
    lengths = np.diff(np.concatenate([[-1], ends, [count - 1]]))
    assert set(range(1, LONGEST_SPAN + 1)) <= set(lengths.tolist())
    rising = sum(one < other for one, other in pairwise(drawn[drawn > 0].tolist()))
    assert 0.4 < rising / count < 0.6  # neither from left to right nor the other way round
    other = prediction_order(ordinary, 1 / 6, seed=0, epoch=1, index=0)
    assert (other != drawn).any()
    assert (prediction_order(ordinary, 1 / 6, seed=0, epoch=0, index=0) == drawn).all()


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_the_shortest_text_has_a_predicted_token(size: int) -> None:
    for index in range(20):
        assert prediction_order(np.ones(size, np.bool_), 1 / 6, seed=0, epoch=0, index=index).any()


def test_a_token_sees_context_and_what_was_predicted_before_it() -> None:
    hidden = permutation_mask(torch.tensor([[0, 2, 0, 1]]))
    assert hidden[0].tolist() == [
        [False, True, False, True],  # what is not predicted sees what is not
        [False, True, False, False],  # the second sees the first, not itself
        [False, True, False, True],
        [False, True, False, True],
    ]


def test_what_is_told_of_a_token_depends_on_nothing_that_it_must_not_see(folder: Path) -> None:
    batch, _ = _batch(folder, rows=1)
    model = load_model(folder).double()
    inputs, positions = batch.inputs, batch.inputs["positions"].tolist()
    with torch.no_grad():
        before = model(**inputs).logits
        for place in range(T):
            ids = inputs["input_ids"].clone()
            ids[0, place] = 9
            moved = (model(**inputs | {"input_ids": ids}).logits - before).abs().amax(1) > 1e-12
            hidden = inputs["perm_mask"][0, positions, place]
            assert (moved == ~hidden).all()


def test_the_second_segment_reads_the_memory_of_the_first(folder: Path) -> None:
    batch, _ = _batch(folder)
    model = load_model(folder).double()
    calls: list[dict[str, Any]] = []

    def forward(**inputs: Any) -> Any:
        calls.append(inputs)
        return model(**inputs)

    total = OBJECTIVE.loss(forward, batch)
    first, second = calls
    assert first["mems"] is None
    assert [memory.shape[0] for memory in second["mems"]] == [T // 2] * 2
    assert not any(memory.requires_grad for memory in second["mems"])
    both = torch.cat([first["input_ids"], second["input_ids"]], 1)
    assert both.tolist() == batch.inputs["input_ids"].tolist()
    score = OBJECTIVE.score(model, batch)
    assert int(score[:, 2].sum()) == int(OBJECTIVE.loss_divisors(batch))
    torch.testing.assert_close(score[:, 0].sum(), total.squeeze().float())
    # With the first segment's tokens exchanged, the second's are told otherwise.
    ids = batch.inputs["input_ids"].clone()
    ids[:, 0] = 9
    other = OBJECTIVE.score(
        model,
        type(batch)(
            **{name: getattr(batch, name) for name in ("targets", "num_tokens", "num_positions")},
            inputs=batch.inputs | {"input_ids": ids},
        ),
    )
    assert ((other[:, 0] - score[:, 0]).abs() > 1e-6).all()


def test_what_is_told_of_a_sequence_does_not_depend_on_those_beside_it(folder: Path) -> None:
    model = load_model(folder).double()
    beside = OBJECTIVE.score(model, _batch(folder, rows=6)[0])
    for row in range(6):
        alone = OBJECTIVE.score(model, _batch(folder, rows=row + 1, first=row)[0])
        torch.testing.assert_close(alone[0], beside[row])


def test_sequences_are_running_text_of_one_document(folder: Path, tmp_path: Path) -> None:
    layout = load_encoder_tokenizer(folder).layout
    documents = [np.arange(100, 150), np.arange(200, 203)]
    write_corpus(
        tmp_path / "corpus",
        [
            [
                TokenizedDocument(ids=ids.astype(np.int32), ends=np.array([len(ids)], np.int32))
                for ids in documents
            ]
        ],
    )
    frame = Frame(layout=layout, max_length=12)
    examples = [*single_document_sequences(Corpus(tmp_path / "corpus"), frame, seed=0, epoch=0)]
    assert all(example.ids[-2:].tolist() == list(layout.end) for example in examples)
    assert all(len(example.ids) <= 12 for example in examples)
    texts = np.concatenate([example.ids[:-2] for example in examples])
    assert (texts == np.concatenate(documents)).all()


def test_a_run_learns_and_fills_masks(folder: Path, text: Path, tmp_path: Path) -> None:
    quick = {"batch_size": 4, "precision": "fp32", "say": lambda line: None, "max_length": 48}
    out = tmp_path / "run"
    heedful.train(
        "pretrain",
        train=text,
        dev=text,
        model=str(folder),
        objective="plm",
        out=out,
        steps=4,
        learning_rate=1e-2,
        **quick,
    )
    scores = heedful.evaluate(out, text)
    assert 0 <= scores["masked_accuracy"] <= 1
    answer = heedful.load(out)("the sky is <mask>lue .")
    assert len(answer.blanks) == 1
    explained = heedful.explain(out, "the sky is <mask>lue .")
    assert any(explained.attributions[0].scores)


def test_what_means_nothing_is_refused(text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="masking has no effect: objective plm predicts spans"):
        heedful.train("pretrain", train=text, objective="plm", masking="word", out=tmp_path / "run")
    with pytest.raises(UserError, match="arch bert: its models have no head for words in any"):
        heedful.train(
            "pretrain",
            train=text,
            objective="plm",
            arch="bert",
            preset="tiny",
            vocabulary="minilm",
            out=tmp_path / "run",
            say=lambda line: None,
        )


def test_the_second_stream_goes_into_no_graph(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="needs the extra [onnx]")
    run = tmp_path / "run"
    run.mkdir()
    for path in folder.iterdir():
        (run / path.name).write_bytes(path.read_bytes())
    runs.write_record(run, runs.outside_record("pretrain", {}, 40))
    files.write_manifest(run)
    with pytest.raises(UserError, match="predicts tokens with a second stream"):
        export(run, tmp_path / "onnx", "onnx")
