"""Hugging Face's Inference API, for clients such as ``InferenceClient``.

Clients post to one path without naming the task. The task follows from the keys of the body and
from the runs. ``/pipeline/{task}`` names the task in the path.
"""

import base64
import functools
import operator
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Strict, ValidationError

from heedful.errors import join_names
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
    problems,
    with_api_names,
)
from heedful.serving.problem import Problem
from heedful.serving.service import ServedRun, Service
from heedful.serving.vectors import NEED
from heedful.serving.wire import Json, JsonRoute, reply


@dataclass(frozen=True, kw_only=True, slots=True)
class Pipeline:
    """One task of the API."""

    name: str
    """Its name in paths."""
    task: str
    """The heedful task that answers it."""
    body: type[Body]
    reply: Any
    """Type of the response."""
    need: str
    """Description of a run that can answer, for error messages."""
    answer: Callable[[Service, ServedRun, Any], Awaitable[Any]]
    """Answers a body; the result is ready for JSON."""
    fits: Callable[[ServedRun, Any], bool] = lambda served, body: True
    """Returns whether a run of the task can answer a body."""
    names: Mapping[str, str] = field(default_factory=dict)
    """heedful's option names to the API's, for error messages."""

    def able(self, served: ServedRun, body: Body) -> bool:
        """Return whether a run can answer a body."""
        return served.task.name == self.task and self.fits(served, body)

    async def reply_to(self, service: Service, served: ServedRun, body: Body) -> Json:
        """Return a run's response to a body.

        Raises:
            Problem: the run cannot answer; the message uses the API's option names.
        """
        try:
            content = await self.answer(service, served, body)
        except Problem as problem:
            raise with_api_names(problem, self.names) from None
        return await reply(lambda: content, len(content))


_IMAGES = Pipeline(
    name="image-classification",
    task="classify",
    body=pipelines.ImageClassification,
    reply=list[pipelines.ScoredLabel],
    fits=pipelines.reads_images,
    need="a run of classify on images",
    answer=pipelines.classify_image,
)

PIPELINES = (
    Pipeline(
        name="text-classification",
        task="classify",
        body=pipelines.TextClassification,
        reply=list[list[pipelines.ScoredLabel]],
        fits=pipelines.can_classify,
        need="a run of classify on single texts or on pairs, like the inputs",
        answer=pipelines.classify,
    ),
    _IMAGES,
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
"""A request body: a JSON object, or the bytes of an image."""


class HubFailure(Reply):
    """The body of an error response."""

    error: str


def render(problem: Problem) -> tuple[int, Any]:
    """Return the HTTP status and the JSON body for a problem."""
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
    route_options: dict[str, Any] = {
        "tags": ["Hugging Face"],
        "responses": problems(HubFailure),
        "openapi_extra": documented,
    }

    @routes.post("/", response_model=_any_reply(), **route_options)
    @routes.post("/invocations", response_model=_any_reply(), **route_options)  # SageMaker's path
    async def answer(body: Asked) -> Json:
        """Answer with the first run that can, for the task that the keys of the body imply."""
        return await _answer(service, None, body)

    @routes.post("/models/{run}", response_model=_any_reply(), **route_options)
    @routes.post("/models/{run}/", include_in_schema=False)
    async def answer_by(run: RunName, body: Asked) -> Json:
        """Answer with the named run, for the task that the keys of the body imply."""
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
    """Answer with the named run, or with the first run that can.

    Raises:
        Problem: no run can answer, or the body is invalid for the best matching task.
    """
    if run is None:
        runs = list(service.runs.values())
    else:
        runs = [service.find(run, lambda served: True, "a run")]
    if isinstance(body, bytes):  # an image, which clients send as raw bytes
        if _is_text(body, runs):
            raise Problem("validation", JSON_EXPECTED)
        served = service.find(run, pipelines.reads_images, _IMAGES.need)
        image = pipelines.ImageClassification(inputs=base64.b64encode(body).decode("ascii"))
        return await _IMAGES.reply_to(service, served, image)
    wrong: ValidationError | None = None
    for served, pipeline in _candidates(runs):
        try:
            request = pipeline.body.model_validate(body)
        except ValidationError as error:
            # A task for which the inputs are valid matches better than one for which they are not.
            if wrong is None or (_has_invalid_inputs(wrong) and not _has_invalid_inputs(error)):
                wrong = error
            continue
        if pipeline.able(served, request):
            return await pipeline.reply_to(service, served, request)
    if wrong is not None:
        raise Problem("validation", first_error(wrong.errors()))
    raise Problem(
        "unable", f"none of these can answer this: {join_names([run.name for run in runs])}"
    )


def _is_text(body: bytes, runs: Sequence[ServedRun]) -> bool:
    """Return whether bytes are JSON or text without a JSON content type, rather than an image."""
    json = body.lstrip()[:1] in (b"{", b"[")
    return json or (b"\0" not in body and not any(map(pipelines.reads_images, runs)))


def _candidates(runs: Sequence[ServedRun]) -> Iterator[tuple[ServedRun, Pipeline]]:
    for served in runs:
        for pipeline in PIPELINES:
            if served.task.name == pipeline.task:
                yield served, pipeline


def _has_invalid_inputs(error: ValidationError) -> bool:
    """Return whether the inputs of a body are invalid."""
    return any(one["loc"][:1] == ("inputs",) for one in error.errors())
