"""``heedful.explain`` in Python."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import heedful
from heedful.errors import UserError
from heedful.explanations.explanation import Attribution, Explanation
from heedful.explanations.methods import METHODS
from heedful.explanations.subject import Subject, with_vectors

GOLDEN = Path(__file__).parents[1] / "golden" / "0.1.0"


def test_it_stays_a_call_whatever_was_imported() -> None:
    import heedful.explanations.html

    assert callable(heedful.explain)


def test_a_run_and_its_folder_are_explained_alike() -> None:
    folder = GOLDEN / "classify"
    loaded = heedful.load(folder, precision="fp32")
    ways = [heedful.explain(run, "a cat sleeps", attention=False) for run in (folder, loaded)]
    assert ways[0].to_dict() == ways[1].to_dict()
    assert ways[0].model == "classify"


def test_it_shows_itself_in_a_notebook() -> None:
    explanation = heedful.explain(GOLDEN / "pair", ("the cat is red", "no, it is not"))
    assert isinstance(explanation, Explanation)
    page = explanation._repr_html_()
    assert page.startswith("<iframe ")
    assert "&lt;!doctype html&gt;" in page
    assert "<script" not in page


def test_choices_and_options() -> None:
    choices = ("what sleeps?", "the soup", "the bird", "the tower")
    methods = ("leave-one-out", "gradient-x-input")
    explanation = heedful.explain(GOLDEN / "choose", choices, target="the soup", method=methods)
    assert [one.method for one in explanation.attributions] == list(methods)
    assert explanation.attributions[0].target == "choice 'the soup'"
    assert explanation.sides[0].texts == ("what sleeps?", "the soup")


def test_mistakes_name_arguments() -> None:
    with pytest.raises(UserError, match="target 'x' is not one of the model's labels"):
        heedful.explain(GOLDEN / "classify", "a cat", target="x")
    with pytest.raises(UserError, match="did you mean 'leave-one-out'"):
        heedful.explain(GOLDEN / "classify", "a cat", method="leave-1-out")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="did you mean 'method'"):
        heedful.explain(GOLDEN / "classify", "a cat", methods="flow")  # type: ignore[call-arg]
    with pytest.raises(UserError, match="precision is set when a run is loaded"):
        heedful.explain(heedful.load(GOLDEN / "classify"), "a cat", precision="fp32")


def test_hooks_do_not_reach_the_model_that_answers_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, text = heedful.load(GOLDEN / "classify", precision="fp32"), "a cat sleeps"
    alone, explained = model(text), list[Subject]()

    def hooked(subject: Subject, token: int | None) -> Attribution:
        explained.append(subject)
        width = subject.model.get_input_embeddings().weight.shape[1]
        zeros = torch.zeros(1, len(subject.target.examples[0].ids), width)
        with with_vectors(subject.model, zeros):
            assert model(text) == alone
            subject.outputs([subject.whole])
        return Attribution(method="flow", target="", scores=(None,))

    monkeypatch.setitem(METHODS, "flow", hooked)
    heedful.explain(model, text, method="flow")
    weights = {one.data_ptr() for one in explained[0].model.parameters()}
    assert weights == {one.data_ptr() for one in model.model.parameters()}


def test_threads_explain_what_one_does() -> None:
    model, texts = heedful.load(GOLDEN / "classify", precision="fp32"), ["a cat sleeps", "bread"]
    alone = [heedful.explain(model, text).sides for text in texts]
    with ThreadPoolExecutor(2) as threads:
        for _ in range(3):
            explained = threads.map(lambda text: heedful.explain(model, text).sides, texts)
            assert list(explained) == alone
