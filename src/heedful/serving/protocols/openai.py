"""OpenAI's API: ``/v1/embeddings`` and ``/v1/models``."""

import base64
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field

from heedful.serving.asking import Body, NamedRun, Reply, Several, ask, for_each_run, problems
from heedful.serving.problem import Kind, Problem
from heedful.serving.service import Service
from heedful.serving.vectors import NEED, gives_vectors, shaped
from heedful.serving.wire import Json, JsonRoute, reply


class EmbeddingsBody(Body):
    """Texts to embed."""

    input: str | Several[str] | Several[int] | Several[Several[int]] = Field(
        description=(
            "A text, or several. Ids are refused, because they come from another tokenizer."
        ),
        examples=["the red cat sleeps", ["the red cat", "it is white"]],
    )
    model: str | None = Field(
        default=None,
        description="Name of a run; default: the first embed run. Ignored if the path names the "
        "run.",
        examples=["minilm"],
    )
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="base64 encodes little-endian 32-bit floats."
    )
    dimensions: int | None = Field(default=None, description="Give only the first dimensions.")
    user: str | None = Field(default=None, description="Ignored.")


class Embedding(Reply):
    """The embedding of a text."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(Reply):
    """Number of tokens of the texts, without special tokens."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(Reply):
    """The embeddings of the texts."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class Model(Reply):
    """A run."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(description="Time of loading, in seconds since 1970.")
    owned_by: str = "heedful"


class Models(Reply):
    """The runs, in the order of the command line."""

    object: Literal["list"] = "list"
    data: list[Model]


class OpenAIFault(Reply):
    """Details of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIFailure(Reply):
    """The body of an error response."""

    error: OpenAIFault


_TYPES: dict[Kind, str] = {
    "overloaded": "rate_limit_exceeded",
    "not ready": "server_error",
    "internal": "server_error",
    "unauthorised": "authentication_error",
}
_CODES: dict[Kind, str] = {"not found": "model_not_found", "unauthorised": "invalid_api_key"}
_STATUS: dict[Kind, int] = {"validation": 400, "unable": 400, "empty": 400}

_IDS_REFUSED = (
    "input: ids come from another tokenizer, so send texts (in LangChain, "
    "OpenAIEmbeddings(check_embedding_ctx_length=False))"
)


def render(problem: Problem) -> tuple[int, Any]:
    """Return the HTTP status and the JSON body for a problem."""
    fault = OpenAIFault(
        message=problem.message,
        type=_TYPES.get(problem.kind, "invalid_request_error"),
        param=None,
        code=_CODES.get(problem.kind),
    )
    return _STATUS.get(problem.kind, problem.status), {"error": fault.model_dump()}


def router(service: Service) -> APIRouter:
    """Return the routes."""

    def routes_for(named: Any) -> APIRouter:
        routes = APIRouter(
            route_class=JsonRoute, tags=["OpenAI"], responses=problems(OpenAIFailure, 400)
        )

        @routes.post("/embeddings", response_model=Embeddings)
        @routes.post("/v1/embeddings", response_model=Embeddings)
        async def embed(body: EmbeddingsBody, run: NamedRun = named) -> Json:
            """Return an embedding of each text."""
            served = service.find(run or body.model, gives_vectors, NEED)
            texts = _texts(body.input)
            answers = await ask(service, served, texts)
            truncated = body.dimensions is not None
            vectors = [shaped(a.vector, body.dimensions, normalise=truncated) for a in answers]
            tokens = sum(answer.tokens_total for answer in answers)
            data: list[dict[str, Any]] = [
                {"object": "embedding", "index": number, "embedding": vector}
                for number, vector in enumerate(vectors)
            ]

            def make_reply() -> dict[str, Any]:
                for row in data:
                    row["embedding"] = _encode_vector(
                        row["embedding"].numpy(), body.encoding_format
                    )
                usage = {"prompt_tokens": tokens, "total_tokens": tokens}
                return {"object": "list", "data": data, "model": served.name, "usage": usage}

            return await reply(make_reply, len(data))

        @routes.get("/v1/models", response_model=Models)
        async def list_models(run: NamedRun = named) -> Json:
            """List the runs."""
            names = list(service.runs) if run is None else [_model(service, run)["id"]]
            return Json({"object": "list", "data": [_model(service, name) for name in names]})

        @routes.get("/v1/models/{model}", response_model=Model)
        async def get_model(model: str, run: NamedRun = named) -> Json:
            """Return the run with that name, or an error if there is none."""
            return Json(_model(service, run or model))

        return routes

    return for_each_run(routes_for)


def _texts(inputs: str | list[Any]) -> list[str]:
    """Return the texts to embed.

    Raises:
        Problem: the inputs are token ids, or there are none.
    """
    if isinstance(inputs, str):
        return [inputs]
    if not inputs:
        raise Problem("empty", "input is empty")
    if not all(isinstance(text, str) for text in inputs):
        raise Problem("validation", _IDS_REFUSED)
    return inputs


def _encode_vector(vector: "np.ndarray[Any, Any]", encoding: str) -> list[float] | str:
    if encoding == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    values: list[float] = vector.tolist()
    return values


def _model(service: Service, name: str) -> dict[str, Any]:
    served = service.find(name, lambda served: True, "a run")
    return Model(id=served.name, created=int(served.loaded)).model_dump()
