"""The explanation targets of each task."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.exact import assert_same_bits
from tests.tiny_folders import write_folder

import heedful
from heedful.decoding.options import Hypothesis
from heedful.errors import UserError
from heedful.explanation_target import Answered, NothingToExplainError
from heedful.explanations.explaining import subject_of
from heedful.explanations.maps import attention_maps
from heedful.explanations.methods import METHODS
from heedful.explanations.subject import Subject
from heedful.models import Head
from heedful.predictor import Predictor
from heedful.settings import PredictSettings
from heedful.tasks.explanation_targets.generated import continued
from heedful.tasks.generation import GenerationOutput

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
CONTEXT = "Carla eats cheese in Oslo. the sky is blue."
MASKS = "the [MASK] is red. it is very [MASK]."
CHOICES = ("what sleeps?", "the soup", "the bird", "the tower")
GERMAN = "Das katze sieht das pferd!"


def subject(run: str, text: Any, target: str | None) -> Subject:
    predictor = Predictor.load(GOLDEN / run, PredictSettings(precision="fp32"))
    (record,) = predictor.task.from_texts([text])
    return subject_of(predictor, record, target)[0]


@pytest.mark.parametrize(
    ("run", "text", "target", "expected"),
    [
        ("classify", "a cat", "food", "label 'food'"),
        ("many", "the red cat", "food", "label 'food'"),
        ("regress", "the bird", None, "the number"),
        ("tag", "Ann is in Paris", None, "tag 'B-PER' of 'Ann'"),
        ("tag", "Ann is in Paris", "Paris", "tag 'B-LOC' of 'Paris'"),
        ("tag", "Ann is in Paris", "is=B-LOC", "tag 'B-LOC' of 'is'"),
        ("tag", "the sky is blue", None, "tag 'O' of"),
        ("tag", "Ann is in 北京", "北京=B-LOC", "tag 'B-LOC' of '北'"),
        ("tag", "Ann is in U.S.A.", "U.S.A.", "of 'U'"),
        ("tag", "Ann is at a=b", "a=b", "of 'a'"),
        ("answer", ("who eats?", CONTEXT), None, "answer 'Carla'"),
        ("answer", ("who eats?", CONTEXT), "in Oslo", "answer 'in Oslo'"),
        ("answer", ("when is it?", CONTEXT), None, "no answer"),
        ("choose", CHOICES, None, "choice 'the bird'"),
        ("choose", CHOICES, "0", "choice 'the soup'"),
        ("choose", CHOICES, "the tower", "choice 'the tower'"),
        ("embed", "a cat", None, "the vector, along its direction"),
        ("pretrain", MASKS, "cat", "'cat' for mask 1"),
        ("pretrain", MASKS, "2=white", "'white' for mask 2"),
        ("masked", MASKS, "2=", "for mask 2"),
        ("pretrain", ("the cat is red.", "it is very red."), None, "the second text"),
        ("writer", "the dog likes", None, "the generated text"),
        ("replies", "cat, red", "sleeps", "the word 'sleeps'"),
        ("translate", GERMAN, None, "the translation"),
        ("translate", GERMAN, "horse", "the word 'horse'"),
        ("translate", GERMAN, "the horse", "the words 'the horse'"),
        ("lstm", GERMAN, "cat", "the word 'cat'"),
    ],
)
def test_targets(run: str, text: Any, target: str | None, expected: str) -> None:
    assert expected in subject(run, text, target).target.description


def test_an_entity_is_not_another_that_begins_alike() -> None:
    aim = subject("tag", "Dan lives near New York and New Lima", "New Lima").target
    (token,) = (aim.sides[0].tokens[position] for position in aim.positions)
    assert aim.sides[0].texts[0][token.start :] == "New Lima"


def test_a_label_is_explained_where_it_is_most_probable() -> None:
    """Not where its logit is highest."""
    text = "bread apple very eats big a bread fish a city blue big dog fish dog cat eats dog"
    predictor = Predictor.load(GOLDEN / "classify", PredictSettings(precision="fp32", max_length=8))
    (record,) = predictor.task.from_texts([text])
    (fitted,) = predictor.encode([record], predictor.settings)
    (windows,) = predictor.computed([fitted], predictor.settings)
    logits = torch.stack(list(windows))[:, predictor.task.labels.index("animal")]
    probabilities = torch.stack(list(windows)).softmax(-1)[:, predictor.task.labels.index("animal")]
    assert logits.argmax() != probabilities.argmax()
    aim = subject_of(predictor, record, "animal")[0].target
    assert f"window {int(probabilities.argmax()) + 1}," in aim.notes[0]


def test_a_slice_is_explained_where_it_answers() -> None:
    context = "Oslo is red. Carla eats in Oslo."
    aim = subject("answer", ("where is it?", context), "Oslo").target
    start, _ = (aim.sides[0].tokens[position].start for position in aim.positions)
    assert start == context.rindex("Oslo")


@pytest.mark.parametrize(
    ("run", "text", "target", "message"),
    [
        ("regress", "the bird", "3", "only one number"),
        ("classify", "a cat", "", "'' is not one of the model's labels"),
        ("tag", "Ann is in Paris", "Pariss", "'Pariss' is not a word of the text (did you mean"),
        ("tag", "Ann is in Paris", "Ann=PER", "'PER' is not one of the model's tags"),
        ("answer", ("who eats?", CONTEXT), "Lima", "'Lima' is not a slice of the context"),
        ("choose", CHOICES, "the cat", "'the cat' is not one of the choices (did you mean"),
        ("embed", "a cat", "x", "only one number"),
        ("pretrain", MASKS, "3=red", "the text has 2 masks"),
        ("pretrain", MASKS, "tastiest", "'tastiest' is not a single token of the vocabulary"),
        ("pretrain", ("the cat is red.", "it is."), "x", "whether the second text follows"),
        (
            "replies",
            "cat, red",
            "sleep",
            "'sleep' is not a word of the generated text (did you mean",
        ),
        ("gru", GERMAN, "unicorn", "'unicorn' is not a word of the generated text"),
    ],
)
def test_mistakes(run: str, text: Any, target: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        subject(run, text, target)
    assert message in str(error.value)


@pytest.mark.parametrize("target", ["2=", "2=cat"])
def test_a_mask_that_was_not_read_is_not_explained(target: str) -> None:
    text = f"the [MASK] is red. {'it is very very big. ' * 6}it is [MASK]."
    settings = PredictSettings(precision="fp32", long_text="head")
    predictor = Predictor.load(GOLDEN / "pretrain", settings)
    (record,) = predictor.task.from_texts([text])
    message = r"^mask 2 is in a part of the text that was not read$"
    with pytest.raises(NothingToExplainError, match=message):
        subject_of(predictor, record, target)


def test_a_word_is_as_likely_as_the_model_says() -> None:
    """The text is at most as probable as any of its words."""
    whole = subject("translate", GERMAN, None)
    assert whole.target.decoder_tokens is not None
    text = whole.target.decoder_tokens[1].texts[0]
    parts = []
    for word in dict.fromkeys(text.rstrip(".").split()):
        one = subject("translate", GERMAN, word)
        parts.append(float(one.probabilities([one.whole])[0]))
    assert all(0 < part <= 1 for part in parts)
    total = float(whole.probabilities([whole.whole])[0])
    assert total <= min(parts)


@pytest.mark.parametrize(
    ("head", "text"),
    [("sequence", "a cat"), ("sequence", ("a cat", "sleeps")), ("choice", CHOICES)],
)
@pytest.mark.parametrize("method", ["rollout", "flow"])
def test_an_answer_is_read_off_the_class_token_where_that_is_the_last(
    head: Head, text: Any, method: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    write_folder("xlnet", folder, head=head)
    one = subject(str(folder), text, None)
    last = len(one.target.sides[0].tokens) - 1
    explained = METHODS[method](one, None)
    assert explained.target == f"token {last}, '<cls>', of the last layer"
    assert_same_bits(explained.scores, METHODS[method](one, last).scores, "same code")


def test_what_a_gpt2_wrote_is_named_by_its_words(tmp_path: Path) -> None:
    """Nearly all its tokens begin with a space."""
    write_folder("gpt2", tmp_path / "model")
    predictor = Predictor.load(tmp_path / "model", PredictSettings(precision="fp32"))
    records = predictor.task.from_texts(["a cat"])
    (fitted,) = predictor.encode(records, predictor.settings)
    tokens = tuple(predictor.tokenizer.encode(" cab b"))
    best = Hypothesis(tokens=tokens, score=0.0, log_probability=0.0, ended=False)
    output = GenerationOutput(hypotheses=[best], log_likelihood=0.0, tokens_known=0)
    computed = Answered(record=records[0], encoded=fitted, outputs=[output], answer=None)
    aim = continued(computed, "cab", predictor.tokenizer)
    assert aim.sides[0].texts == ("a cat", " cab b")
    assert len(aim.positions) == 4  # the space and the letters
    with pytest.raises(UserError, match=r"not a word of the generated text.*: cab, b"):
        continued(computed, "dog", predictor.tokenizer)


def test_the_mask_of_an_xlnet_attends_as_the_stream_that_fills_it(tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "run"
    write_folder("xlnet", model)
    heedful.train(
        "pretrain",
        train=GOLDEN / "data/pretrain.txt",
        objective="plm",
        model=str(model),
        out=out,
        steps=1,
    )
    one = subject(str(out), "a cat <mask> b", None)
    (shown,) = attention_maps(one)
    (place,) = one.target.positions
    ids = torch.from_numpy(one.target.examples[0].ids)[None].long()
    length = ids.shape[1]
    types = one.batch([one.whole])[0].inputs["token_type_ids"]
    output = one.model(
        input_ids=ids, token_type_ids=types, positions=torch.tensor([place]), output_attentions=True
    )
    assert shown.weights.shape[-2:] == (length, length)
    others = [at for at in range(length) if at != place]
    for layer, (content, query) in zip(shown.weights, output.attentions, strict=True):
        np.testing.assert_allclose(layer[:, place], query[0, :, 0].detach(), atol=1e-6)
        np.testing.assert_allclose(layer[:, others], content[0][:, others].detach(), atol=1e-6)
    for method in ("rollout", "flow"):
        assert METHODS[method](one, None).target.startswith(f"token {place}, ")


def test_vectors_of_tokens_do_not_change_what_is_explained() -> None:
    scores = []
    for wanted in (False, True):
        settings = PredictSettings(precision="fp32", token_vectors=wanted)
        predictor = Predictor.load(GOLDEN / "embed", settings)
        (record,) = predictor.task.from_texts(["the red cat sleeps"])
        one, _ = subject_of(predictor, record, None)
        scores.append(float(one.scores([one.whole])[0]))
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)


@pytest.mark.parametrize("run", ["writer", "replies", "translate", "separate", "gru", "marian"])
def test_all_that_was_written_is_as_likely_as_the_search_says(run: str) -> None:
    settings = PredictSettings(precision="fp32", length_penalty=0.0)
    predictor = Predictor.load(GOLDEN / run, settings)
    texts = {"writer": "the dog likes", "replies": "cat, red"}
    (record,) = predictor.task.from_texts([texts.get(run, GERMAN)])
    one, answer = subject_of(predictor, record, None)
    assert float(one.scores([one.whole])[0]) == pytest.approx(answer.n_best[0].score, abs=1e-4)
