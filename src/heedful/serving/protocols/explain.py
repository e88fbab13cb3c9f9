"""Explanations of a run's answers: ``POST /api/runs/{run}/explain``."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from heedful.errors import UserError
from heedful.explanations import html
from heedful.explanations.explanation import Explanation
from heedful.explanations.methods import METHODS
from heedful.serving.asking import Body, Several, described
from heedful.serving.explaining import Explainer
from heedful.serving.problem import Problem, refusal
from heedful.serving.protocols import runs
from heedful.serving.service import Service
from heedful.serving.wire import Json, JsonRoute
from heedful.settings import ExplainSettings
from heedful.settings.explaining import MethodName

MOST_WEIGHTS = 1_000_000
"""Maximum number of attention weights in a JSON response; HTML leaves out the excess."""

_DEFAULT = ExplainSettings()


class Subject(Body):
    """The text to explain, and options of the explanation."""

    text: str | Several[str] = Field(
        description="A text; or a pair, such as a question and its context; or a question and its "
        "choices.",
        examples=["the red cat sleeps"],
    )
    method: list[MethodName] = Field(
        default=list(_DEFAULT.method),
        max_length=len(METHODS),
        description="How to attribute the answer to tokens.",
    )
    target: str | None = Field(
        default=None, description="What to explain instead of the answer, such as another label."
    )
    token: int | None = Field(
        default=None,
        ge=0,
        le=1_000_000,
        description="The token that rollout and flow start from.",
    )
    attention: bool = Field(default=False, description="Also give the attention.")
    words: bool = Field(
        default=False,
        description="Merge the tokens of each word; Chinese text is segmented into words.",
    )


class ExplanationReply(BaseModel):
    """An explanation, as ``heedful explain --out FILE.json`` writes it."""

    task: str
    model: str
    answer: dict[str, Any]
    sides: list[dict[str, Any]]
    attributions: list[dict[str, Any]]
    attention: list[dict[str, Any]]
    notes: list[str]


def router(service: Service) -> APIRouter:
    """Return the route for explanations."""
    routes = APIRouter(
        route_class=JsonRoute, tags=["heedful"], responses={"default": described(runs.Failure)}
    )
    explainer = Explainer(service.settings)

    @routes.post(
        "/api/runs/{run}/explain",
        response_model=ExplanationReply,
        responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
    )
    async def explain(
        run: runs.Name, subject: Subject, accept: Annotated[str, Header()] = ""
    ) -> Response:
        """Explain which tokens of a text an answer comes from, as JSON or as one HTML file."""
        served = service.find(run, lambda served: True, "any run")
        (record,) = runs.records_of(served, [subject.text])
        make = as_html if "text/html" in accept else as_json
        return await explainer.explain(served, record, settings_of(subject), make)

    return routes


render = runs.render


def settings_of(subject: Subject) -> ExplainSettings:
    """Return the explanation settings of a request.

    Raises:
        Problem: a value is out of range.
    """
    try:
        return ExplainSettings(
            method=tuple(dict.fromkeys(subject.method)),
            target=subject.target,
            token=subject.token,
            attention=subject.attention,
            words=subject.words,
        )
    except UserError as error:
        raise refusal(error) from None


def as_html(explanation: Explanation) -> Response:
    """Return the explanation as HTML, as ``heedful explain --out FILE.html`` writes it."""
    return HTMLResponse(html.render(explanation), headers={"vary": "accept"})


def as_json(explanation: Explanation) -> Response:
    """Return the explanation as JSON.

    Raises:
        Problem: it has too many attention weights.
    """
    weights = sum(one.weights.size for one in explanation.attention)
    if weights > MOST_WEIGHTS:
        message = f"{weights:,} weights of attention; a reply may have {MOST_WEIGHTS:,}"
        raise Problem("too many", f"{message}: send a shorter text")
    return Json(explanation.to_dict())
