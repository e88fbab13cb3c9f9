"""What clients of Hugging Face's Inference API speak, such as ``InferenceClient``.

They post to one address and do not say which task they mean: the keys of what they send do, and
what the run can. ``/pipeline/{task}`` says it.
"""

import base64
import functools
import operator
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Strict, ValidationError

from heedful.errors import listed
from heedful.serving import pipelines, tagging, translation
from heedful.serving.asking import (
    JSON_EXPECTED,
    SCHEMA,
    Body,
    NamedRun,
    Reply,
    RunName,
    first_error,
    for_each_run,
    in_words,
    problems,
)
from heedful.serving.problem import Problem
from heedful.serving.service import Served, Service
from heedful.serving.vectors import NEED
from heedful.serving.wire import Json, JsonRoute, reply


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """One task of the API."""

    name: str
    """As it stands in paths."""
    task: str
    """The task of heedful that answers it."""
    body: type[Body]
    reply: Any
    """The type of its answer."""
    need: str
    """What such a run is, for messages."""
    answer: Callable[[Service, Served, Any], Awaitable[Any]]
    """Answers a body, ready for JSON."""
    fits: Callable[[Served, Any], bool] = lambda served, body: True
    """Whether a run of the task can answer a body."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What its clients call options of heedful, for messages."""

    def able(self, served: Served, body: Body) -> bool:
        """Tell whether a run can answer a body."""
        return served.task.name == self.task and self.fits(served, body)

    async def reply_to(self, service: Service, served: Served, body: Body) -> Json:
        """Return what a run answers to a body.

        Raises:
            Problem: it cannot, told in the words of the API.
        """
        try:
            content = await self.answer(service, served, body)
        except Problem as problem:
            raise in_words(problem, self.names) from None
        return await reply(lambda: content, len(content))


_PICTURES = Pipeline(
    name="image-classification",
    task="classify",
    body=pipelines.ImageClassification,
    reply=list[pipelines.ScoredLabel],
    fits=pipelines.sees,
    need="a run of classify that reads pictures",
    answer=pipelines.classify_picture,
)

PIPELINES = (
    Pipeline(
        name="text-classification",
        task="classify",
        body=pipelines.TextClassification,
        reply=list[list[pipelines.ScoredLabel]],
        fits=pipelines.classifies,
        need="a run of classify, of single texts or of pairs as they are given",
        answer=pipelines.classify,
    ),
    _PICTURES,
    Pipeline(
        name="zero-shot-classification",
        task="classify",
        body=pipelines.ZeroShot,
        reply=pipelines.ZeroShotReply,
        fits=lambda served, body: pipelines.entailment(served) is not None,
        need="a run of classify on pairs with the labels entailment and contradiction",
        answer=pipelines.zero_shot,
    ),
    Pipeline(
        name="token-classification",
        task="tag",
        body=tagging.TokenClassification,
        reply=list[tagging.Entity],
        need="a run of tag",
        answer=tagging.tag,
    ),
    Pipeline(
        name="question-answering",
        task="answer",
        body=pipelines.QuestionAnswering,
        reply=pipelines.Span | list[pipelines.Span],
        need="a run of answer",
        answer=pipelines.answer_question,
        names={"top": "top_k", "max_length": "max_seq_len"},
    ),
    Pipeline(
        name="fill-mask",
        task="pretrain",
        body=pipelines.FillMask,
        reply=list[pipelines.FilledMask] | list[list[pipelines.FilledMask]],
        need="a run of pretrain that fills in masks",
        answer=pipelines.fill,
        fits=lambda served, body: "fill" in served.task.abilities,
        names={"top": "top_k"},
    ),
    Pipeline(
        name="translation",
        task="translate",
        body=translation.Translation,
        reply=list[translation.Translated],
        need="a run of translate",
        answer=translation.translate,
        names=translation.NAMES,
    ),
    Pipeline(
        name="feature-extraction",
        task="embed",
        body=pipelines.FeatureExtraction,
        reply=list[list[float]],
        need=NEED,
        answer=pipelines.vectors,
        names={"long_text": "truncate"},
    ),
    Pipeline(
        name="sentence-similarity",
        task="embed",
        body=pipelines.SentenceSimilarity,
        reply=list[float],
        need=NEED,
        answer=pipelines.similarities,
    ),
)


Asked = dict[str, Any] | Annotated[bytes, Strict()]
"""JSON, or the bytes of a picture."""


class HubFailure(Reply):
    """What went wrong."""

    error: str


def render(problem: Problem) -> tuple[int, Any]:
    """Return the status and the JSON that tell a client of a problem."""
    return problem.status, {"error": problem.message}


def router(service: Service) -> APIRouter:
    """Return the routes."""

    def routes_for(named: Any) -> APIRouter:
        routes = APIRouter(
            route_class=JsonRoute, tags=["Hugging Face"], responses=problems(HubFailure)
        )
        for pipeline in PIPELINES:
            _add(routes, service, pipeline, named)
        return routes

    routes = for_each_run(routes_for)
    documented = {
        "requestBody": {
            "content": {
                "application/json": {
                    "schema": {
                        "anyOf": [
                            {"$ref": SCHEMA.format(model=pipeline.body.__name__)}
                            for pipeline in PIPELINES
                        ]
                    }
                }
            }
        }
    }
    about: dict[str, Any] = {
        "tags": ["Hugging Face"],
        "responses": problems(HubFailure),
        "openapi_extra": documented,
    }

    @routes.post("/", response_model=_any_reply(), **about)
    @routes.post("/invocations", response_model=_any_reply(), **about)  # as SageMaker calls it
    async def answer(body: Asked) -> Json:
        """Answer by the first run that can, for the task that the keys say."""
        return await _answer(service, None, body)

    @routes.post("/models/{run}", response_model=_any_reply(), **about)
    @routes.post("/models/{run}/", include_in_schema=False)
    async def answer_by(run: RunName, body: Asked) -> Json:
        """Answer by a run, for the task that the keys say."""
        return await _answer(service, run, body)

    return routes


def _any_reply() -> Any:
    replies = [pipeline.reply for pipeline in PIPELINES]
    return functools.reduce(operator.or_, replies)


def _add(routes: APIRouter, service: Service, pipeline: Pipeline, named: Any) -> None:
    """Add the route of one task."""
    kind = pipeline.body

    @routes.post(
        f"/pipeline/{pipeline.name}",
        response_model=pipeline.reply,
        summary=f"Answer for {pipeline.name}.",
        name=pipeline.name,
    )
    async def answer(body: kind, run: NamedRun = named) -> Json:  # type: ignore[valid-type]
        served = service.find(run, lambda served: pipeline.able(served, body), pipeline.need)
        return await pipeline.reply_to(service, served, body)


async def _answer(service: Service, run: str | None, body: dict[str, Any] | bytes) -> Json:
    """Answer by a run of a name, or by the first that can.

    Raises:
        Problem: no run can, or the body is wrong for the one that comes nearest.
    """
    if run is None:
        runs = list(service.runs.values())
    else:
        runs = [service.find(run, lambda served: True, "a run")]
    if isinstance(body, bytes):  # a picture, which clients send as it is
        if _is_text(body, runs):
            raise Problem("validation", JSON_EXPECTED)
        served = service.find(run, pipelines.sees, _PICTURES.need)
        picture = pipelines.ImageClassification(inputs=base64.b64encode(body).decode("ascii"))
        return await _PICTURES.reply_to(service, served, picture)
    wrong: ValidationError | None = None
    for served, pipeline in _possible(runs):
        try:
            asked = pipeline.body.model_validate(body)
        except ValidationError as error:
            # Whose inputs are right comes nearer than whose are not.
            if wrong is None or (_about_inputs(wrong) and not _about_inputs(error)):
                wrong = error
            continue
        if pipeline.able(served, asked):
            return await pipeline.reply_to(service, served, asked)
    if wrong is not None:
        raise Problem("validation", first_error(wrong.errors()))
    raise Problem("unable", f"none of these can answer this: {listed([run.name for run in runs])}")


def _is_text(body: bytes, runs: Sequence[Served]) -> bool:
    """Tell whether bytes are JSON or words that do not say so, and not a picture for a run."""
    json = body.lstrip()[:1] in (b"{", b"[")
    return json or (b"\0" not in body and not any(map(pipelines.sees, runs)))


def _possible(runs: Sequence[Served]) -> Iterator[tuple[Served, Pipeline]]:
    for served in runs:
        for pipeline in PIPELINES:
            if served.task.name == pipeline.task:
                yield served, pipeline


def _about_inputs(error: ValidationError) -> bool:
    """Tell whether what is wrong with a body is what it asks about."""
    return any(one["loc"][:1] == ("inputs",) for one in error.errors())
