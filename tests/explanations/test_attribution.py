"""Attributions against independent computations: by hand, and in double precision."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny import byte_level_tokenizer
from tests.tiny_folders import write_folder
from torch import Tensor

from heedful.explanations import gradients
from heedful.explanations.explaining import explain_record, subject_of
from heedful.explanations.gradients import gradient_x_input, integrated_gradients
from heedful.explanations.maps import attention_maps
from heedful.explanations.occlusion import leave_one_out
from heedful.explanations.subject import Subject
from heedful.models import RobertaConfig, RobertaForSequenceClassification
from heedful.predictor import Predictor
from heedful.settings import ExplainSettings, PredictSettings
from heedful.training.device import Precision

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"
TEXT = "the blue horse sleeps"
FINE = PredictSettings(precision="fp32")


def subject_for(
    run: str, *texts: Any, target: str | None = None, long: int | None = None
) -> Subject:
    predictor = Predictor.load(GOLDEN / run, PredictSettings(precision="fp32", max_length=long))
    (record,) = predictor.task.from_texts(texts)
    subject, _ = subject_of(predictor, record, target)
    subject.model.double()
    return subject


def logit_of_vectors(subject: Subject) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return a classifier's embeddings, and a function from embeddings (K, T, D) to its logit."""
    ids = torch.from_numpy(subject.target.examples[0].ids).long()
    vectors = subject.model.get_input_embeddings().weight.detach()[ids]  # (T, D)
    return vectors, lambda rows: subject.model(inputs_embeds=rows).logits[
        :, subject.target.output_index
    ]


def test_gradient_x_input_is_a_finite_difference() -> None:
    subject = subject_for("classify", TEXT)
    vectors, logit = logit_of_vectors(subject)
    expected, step = [], 1e-5
    with torch.no_grad():
        for token in range(len(vectors)):
            change = torch.zeros_like(vectors)
            change[token] = step * vectors[token]
            up, down = logit(torch.stack([vectors + change, vectors - change]))
            expected.append(float(up - down) / (2 * step))
    (scores,), _ = gradient_x_input(subject)
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("family", "counts"), [("bert", True), ("deberta-v2", False)])
def test_vectors_that_are_normalised_at_once_have_no_length(
    family: str, counts: bool, tmp_path: Path
) -> None:
    """These DeBERTas add nothing to the word embeddings before the first norm."""
    write_folder(family, tmp_path / "model", head="sequence")
    predictor = Predictor.load(tmp_path / "model", FINE)
    (record,) = predictor.task.from_texts([TEXT])
    explained = explain_record(predictor, record, ExplainSettings(method=("gradient-x-input",)))
    told = any("gradient-x-input are rounding errors" in note for note in explained.notes)
    assert told is not counts


def test_one_gradient_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    compute = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *args: calls.append(args) or compute(*args))
    predictor = Predictor.load(GOLDEN / "classify", FINE)
    (record,) = predictor.task.from_texts([TEXT])
    explain_record(predictor, record, ExplainSettings(method=("gradient-x-input",)))
    assert len(calls) == 1


@pytest.mark.parametrize("run", ["separate", "lstm"])
def test_gradients_reach_what_translators_read(run: str) -> None:
    # Their table of what is read has no other use, so that a row of it can be changed instead.
    subject = subject_for(run, "Das katze sieht das pferd!")
    ids = subject.target.examples[0].ids
    table, step = subject.model.get_input_embeddings().weight, 1e-5
    (scores,), _ = gradient_x_input(subject)
    for token_id in np.unique(ids):
        before = table.detach()[token_id].clone()
        outputs = []
        for factor in (1 + step, 1 - step):
            with torch.no_grad():
                table[token_id] = before * factor
            outputs.append(subject.scores([subject.whole])[0])
        with torch.no_grad():
            table[token_id] = before
        expected = (outputs[0] - outputs[1]) / (2 * step)
        np.testing.assert_allclose(scores[ids == token_id].sum(), expected, rtol=1e-4, atol=1e-7)


def test_integrated_gradients_are_the_integral(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "RELATIVE_TOLERANCE", 1e-7)
    monkeypatch.setattr(gradients, "ABSOLUTE_TOLERANCE", 1e-7)
    subject = subject_for("classify", TEXT)
    (scores,), check = integrated_gradients(subject)
    assert check.held
    assert check.steps > gradients.MIN_STEPS
    assert check.total == pytest.approx(check.difference, abs=1e-6)
    vectors, logit = logit_of_vectors(subject)
    masks = torch.full((len(vectors),), subject.placeholder_id)
    masks[[0, -1]] = torch.from_numpy(subject.target.examples[0].ids).long()[[0, -1]]
    start = subject.model.get_input_embeddings().weight.detach()[masks]
    with torch.no_grad():
        ends = logit(torch.stack([vectors, start]))
    assert check.difference == pytest.approx(float(ends[0] - ends[1]), abs=1e-9)
    points = (torch.arange(800, dtype=torch.float64) + 0.5) / 800  # midpoints
    path = (start + points[:, None, None] * (vectors - start)).requires_grad_()
    (slopes,) = torch.autograd.grad(logit(path).sum(), path)
    expected = ((vectors - start) * slopes.mean(0)).sum(-1)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert scores[0] == scores[-1] == 0


def test_steps_end_at_the_cap_and_a_miss_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "RELATIVE_TOLERANCE", 0.0)
    monkeypatch.setattr(gradients, "ABSOLUTE_TOLERANCE", 0.0)
    monkeypatch.setattr(gradients, "MAX_STEPS", 32)
    predictor = Predictor.load(GOLDEN / "classify", FINE)
    (record,) = predictor.task.from_texts([TEXT])
    explanation = explain_record(predictor, record, ExplainSettings(attention=False))
    check = explanation.attributions[0].completeness
    assert check is not None
    assert (check.steps, check.held) == (32, False)
    assert "even with 32 steps: do not rely on them" in explanation.notes[-1]


def test_half_precision_is_explained_in_full() -> None:
    predictor = Predictor.load(GOLDEN / "classify", FINE)
    predictor.model.bfloat16()
    predictor.precision = Precision(dtype=torch.bfloat16, reason="asked for")
    (record,) = predictor.task.from_texts([TEXT])
    explanation = explain_record(predictor, record, ExplainSettings())
    check = explanation.attributions[0].completeness
    assert check is not None
    assert check.held
    assert check.difference != float(torch.tensor(check.difference).bfloat16())
    assert "in half precision, and its explanation in fp32" in explanation.notes[-1]
    assert next(predictor.model.parameters()).dtype is torch.bfloat16


def test_words_are_left_out_of_a_classifier() -> None:
    subject = subject_for("classify", TEXT)
    (scores,) = leave_one_out(subject)
    predictor = Predictor.load(GOLDEN / "classify", FINE)
    tokenizer = predictor.tokenizer

    def logit(text: str) -> float:
        row = torch.tensor([tokenizer.layout.ids(tokenizer.encode_batch([text])[0])])
        with torch.no_grad():
            return float(subject.model(row).logits[0, subject.target.output_index])

    side = subject.target.sides[0]
    for number, word in enumerate(TEXT.split()):
        tokens = [at for at, token in enumerate(side.tokens) if token.word == number]
        rest = " ".join(one for one in TEXT.split() if one != word)
        each = (logit(TEXT) - logit(rest)) / len(tokens)
        np.testing.assert_allclose(scores[tokens], each, rtol=1e-6)
    assert scores[0] == scores[-1] == 0


def test_the_second_text_of_a_pair_keeps_its_types() -> None:
    subject = subject_for("pair", ("the cat is red", "no, it is not here"))
    (scores,) = leave_one_out(subject)
    example, side = subject.target.examples[0], subject.target.sides[0]
    types = np.arange(len(example.ids)) >= (example.split or 0)
    words = [token.word for token in side.tokens]
    alone = [at for at, word in enumerate(words) if word is not None and words.count(word) == 1]
    assert len({side.tokens[at].text for at in alone}) == 2
    for token in alone:
        kept = np.arange(len(example.ids)) != token
        with torch.no_grad():
            logits = [
                subject.model(
                    torch.from_numpy(example.ids[rows]).long()[None],
                    token_type_ids=torch.from_numpy(types[rows]).long()[None],
                ).logits[0, subject.target.output_index]
                for rows in (kept | True, kept)
            ]
        np.testing.assert_allclose(scores[token], float(logits[0] - logits[1]), rtol=1e-6)


def test_a_tagged_word_is_masked_and_others_shift_it() -> None:
    subject = subject_for("tag", "Dan Miller lives near New Lima", target="New")
    (scores,) = leave_one_out(subject)
    ids, (position,) = subject.target.examples[0].ids, subject.target.positions

    def logit(row: np.ndarray, at: int) -> float:
        with torch.no_grad():
            logits = subject.model(torch.from_numpy(row).long()[None]).logits
        return float(logits[0, at, subject.target.output_index])

    whole = logit(ids, position)
    masked = ids.copy()
    masked[position] = subject.placeholder_id
    np.testing.assert_allclose(scores[position], whole - logit(masked, position), rtol=1e-6)
    left = whole - logit(np.delete(ids, 1), position - 1)
    np.testing.assert_allclose(scores[1], left, rtol=1e-6)


def test_attention_is_what_the_model_says() -> None:
    subject = subject_for("pruned", TEXT)
    (one,) = attention_maps(subject)
    batch, _ = subject.batch([subject.whole])
    with torch.no_grad():
        layers = subject.model(**batch.inputs, output_attentions=True).attentions
    assert one.gone
    for number, layer in enumerate(layers):
        left = [head for head in range(one.weights.shape[1]) if (number, head) not in one.gone]
        np.testing.assert_allclose(one.weights[number, left], layer[0], atol=1e-6)
    for head in one.gone:
        assert not one.weights[head].any()


def test_alignments_are_those_of_the_decoder() -> None:
    subject = subject_for("gru", "Das hund ist rot!")
    (one,) = attention_maps(subject)
    batch, _ = subject.batch([subject.whole])
    assert subject.target.decoder_tokens is not None
    tokens = [token.piece for token in subject.target.decoder_tokens[1].tokens]
    targets = torch.tensor([[subject.tokenizer.target.ids[token] for token in tokens]])
    weights = subject.model.align(batch.inputs["input_ids"], None, targets)  # type: ignore[operator]
    np.testing.assert_allclose(one.weights[0, 0], weights[0], atol=1e-6)


def test_two_texts_are_compared_by_both_their_words() -> None:
    subject = subject_for("embed", ("the red cat sleeps", "a cat, red, and very very white"))
    scores, check = integrated_gradients(subject)
    assert check.held
    assert [len(one) for one in scores] == [len(example.ids) for example in subject.target.examples]
    left = leave_one_out(subject)
    without = [np.zeros(len(one), dtype=np.bool_) for one in left]
    without[1][1] = True
    variants = [subject.whole, subject.without(without)]
    whole, less = subject.scores(variants)
    np.testing.assert_allclose(left[1][1], whole - less)


def test_tokens_of_a_window_are_slices_of_the_text() -> None:
    text = "the very white tower stands and the old bridge stands and the house sleeps"
    subject = subject_for("classify", text, target="animal", long=10)
    (side,), (note,) = subject.target.sides, subject.target.notes
    assert "windows; this explains window" in note
    assert side.texts == (text,)
    assert len(side.tokens) == len(subject.target.examples[0].ids) == 10
    vocabulary = subject.tokenizer.vocabulary
    for token, token_id in zip(side.tokens, subject.target.examples[0].ids, strict=True):
        assert vocabulary.token(int(token_id)) == token.piece
        if token.text is not None:
            assert text[token.start : token.end] == token.piece.removeprefix("##")


def test_a_model_of_another_family() -> None:
    """Gradients also work for RoBERTa, which has other tokens and positions."""
    from heedful.batches import Example
    from heedful.explanation_target import ExplanationTarget, side_of
    from heedful.tasks.classify import Classify

    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=300,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=20,
        num_labels=3,
        initializer_range=0.4,
        pad_token_id=1,
    )
    model = RobertaForSequenceClassification(config).eval().double()
    tokenizer = byte_level_tokenizer()
    pieces = tokenizer.pieces("a low lower")
    ids = np.array(tokenizer.layout.ids(pieces.ids), dtype=np.int32)
    subject = Subject(
        model=model,
        task=Classify(labels=("a", "b", "c"), multi_label=False),
        tokenizer=tokenizer,
        target=ExplanationTarget(
            description="label 'b'",
            examples=(Example(ids=ids),),
            sides=(side_of("text", ["a low lower"], [range(len(pieces.ids))], tokenizer),),
            outputs=lambda forward, batch, positions: forward(**batch.inputs).logits,
            output_index=1,
            link="softmax",
        ),
        batch_tokens=512,
    )
    (scores,), check = integrated_gradients(subject)
    assert check.held
    assert np.abs(scores).max() > 1e-4
    (one,) = attention_maps(subject)
    assert one.weights.shape == (2, 2, len(ids), len(ids))
