"""``heedful.explain`` in Python."""

from pathlib import Path

import pytest

import heedful
from heedful.errors import UserError
from heedful.explanations.explanation import Explanation

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
    with pytest.raises(UserError, match="precision is decided when a run is loaded"):
        heedful.explain(heedful.load(GOLDEN / "classify"), "a cat", precision="fp32")
