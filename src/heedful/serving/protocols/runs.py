"""heedful's own JSON API: ``POST /api/runs/{run}/predict`` and ``GET /api/runs``."""

from dataclasses import fields, replace
from typing import Annotated, Any, get_type_hints

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field, create_model

from heedful.serving import images
from heedful.serving.asking import Body, Several, described
from heedful.serving.limits import check_items
from heedful.serving.problem import Problem
from heedful.serving.service import ServedRun, Service
from heedful.serving.wire import Json, JsonRoute, reply
from heedful.settings import PredictSettings
from heedful.task import Ability

Name = Annotated[str, Path(description="Name of a run, as GET /api/runs gives it.")]


class InputInfo(BaseModel):
    """One of the texts in an item."""

    name: str
    several: bool = Field(description="Whether it is any number of texts.")
    optional: bool


class RunInfo(BaseModel):
    """A run that is served."""

    name: str
    task: str
    about: str = Field(description="What the run does, in a sentence or two.")
    abilities: list[Ability] = Field(description="What the run supports, besides plain answers.")
    inputs: list[InputInfo] = Field(description="What each item of `texts` consists of.")
    options: list[str] = Field(description="Options that affect its answers.")
    mask: str | None = Field(description="The mask token, if the run fills masks.")
    max_length: int = Field(description="Maximum number of tokens that the model reads at once.")
    ready: bool


class Runs(BaseModel):
    """The runs of the server, in the order of the command line."""

    runs: list[RunInfo]


_SERVER_OPTIONS = {"precision", "device", "batch_size", "batch_tokens"}
"""Options that only the server may set."""

_TYPES = get_type_hints(PredictSettings)
_OPTIONS: dict[str, Any] = {
    field.name: (_TYPES[field.name], field.default)
    for field in fields(PredictSettings)
    if field.name not in _SERVER_OPTIONS
}
_OPTIONS["targets"] = (  # JSON has lists
    Annotated[tuple[str, ...], Field(strict=False, fail_fast=True)],
    (),
)
Options = create_model("Options", __base__=Body, **_OPTIONS)
"""Options of ``heedful predict`` that a request may set."""


class Question(Body):
    """Texts to predict answers for, with options."""

    texts: Several[str | Several[str]] = Field(
        description="Texts; or pairs of them, such as a question and its context; or a question "
        "and its choices."
    )
    options: Options = Field(  # type: ignore[valid-type]
        default=Options(), description="Options of `heedful predict`, such as top and beam."
    )
    all_scores: bool = Field(default=False, description="Give all scores.")


class Answers(BaseModel):
    """An answer for each text, in order, as ``heedful predict`` prints it."""

    answers: list[dict[str, Any]]


class Error(BaseModel):
    """Details of an error."""

    kind: str
    message: str


class Failure(BaseModel):
    """The body of an error response."""

    error: Error


def router(service: Service) -> APIRouter:
    """Return the routes of heedful's own JSON API."""
    routes = APIRouter(
        route_class=JsonRoute, tags=["heedful"], responses={"default": described(Failure)}
    )

    @routes.get("/api/runs")
    async def list_runs() -> Runs:
        """List the runs."""
        return Runs(runs=[_info(served) for served in service.runs.values()])

    @routes.post("/api/runs/{run}/predict", response_model=Answers)
    async def predict(run: Name, question: Question) -> Json:
        """Return a run's answers for texts."""
        served = service.find(run, lambda served: True, "any run")
        asked = question.model_dump(exclude_unset=True)
        options, everything = asked.get("options", {}), question.all_scores
        settings = served.settings(**options)
        if "write" in served.task.abilities and not everything:
            if "top" in options:
                message = "top is for the texts of all_scores: give that option too"
                raise Problem("validation", message)
            if settings.sample:  # the other samples would not be shown
                settings = replace(settings, top=1)
        records = records_of(served, question.texts)
        answers = await service.answer(served, records, settings)
        return await reply(
            lambda: {"answers": [one.to_dict(everything=everything) for one in answers]},
            len(answers),
        )

    return routes


def render(problem: Problem) -> tuple[int, Any]:
    """Return the HTTP status and the JSON body for a problem."""
    return problem.status, {"error": {"kind": problem.kind, "message": problem.message}}


def records_of(served: ServedRun, texts: list[str | list[str]]) -> list[Any]:
    """Make records from texts, or from lists of texts.

    Raises:
        Problem: there are too many texts, or the run does not accept such texts.
    """
    check_items(len(texts), served.lane.settings)
    for number, text in enumerate(texts, start=1):
        if isinstance(text, list) and len(text) < 2:
            raise Problem("validation", f"text {number}: a list needs at least 2 texts")
    inputs: list[Any] = [text if isinstance(text, str) else tuple(text) for text in texts]
    return images.records_of(served, inputs)


def _info(served: ServedRun) -> RunInfo:
    predictor = served.predictor
    task = served.task
    return RunInfo(
        name=served.name,
        task=task.name,
        about=task.model_card(),
        abilities=sorted(task.abilities),
        inputs=[
            InputInfo(name=one.name, several=one.variadic, optional=one.optional)
            for one in task.inputs
        ],
        options=sorted(task.answer_options),
        mask=predictor.tokenizer.mask_token if "fill" in task.abilities else None,
        max_length=predictor.max_length,
        ready=served.warm,
    )
