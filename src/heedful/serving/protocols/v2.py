"""The Open Inference Protocol, version 2, for clients of KServe and Triton."""

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, ValidationError

from heedful import __version__
from heedful.errors import unknown_name
from heedful.serving.asking import (
    NamedRun,
    Reply,
    ask,
    first_error,
    for_each_run,
    problems,
)
from heedful.serving.problem import Kind, Problem
from heedful.serving.protocols import health
from heedful.serving.protocols.runs import Options
from heedful.serving.service import ServedRun, Service
from heedful.serving.tables import columns_of, tensors_of, texts_of
from heedful.serving.tensors import HEADER, InferBody, InferRequest, decompressed, read, write
from heedful.serving.wire import Json, reply

VERSION = "1"
"""The only version of every run."""


class ServerMetadata(Reply):
    """Information about the server."""

    name: str
    version: str
    extensions: list[str]


class Live(Reply):
    """Whether the server is alive."""

    live: Literal[True] = True


class ServerReady(Reply):
    """Whether every run is ready."""

    ready: Literal[True] = True


class ModelReady(Reply):
    """Whether a run is ready."""

    name: str
    ready: Literal[True] = True


class TensorMetadata(Reply):
    """A tensor's name, datatype and shape; -1 is a dimension of any size."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(Reply):
    """The tensors of a run. Some tasks have further inputs or outputs."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class OutputTensor(Reply):
    """An output tensor."""

    name: str
    shape: list[int]
    datatype: Literal["BOOL", "INT64", "FP32", "BYTES"]
    data: list[bool] | list[int] | list[float] | list[str] | None = None
    parameters: dict[str, int] | None = Field(
        default=None, description="binary_data_size, where the elements follow as bytes."
    )


class InferReply(Reply):
    """The answers."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[OutputTensor]


class V2Failure(Reply):
    """The body of an error response."""

    error: str


_STATUS: dict[Kind, int] = {"validation": 400, "unable": 400, "empty": 400}


def render(problem: Problem) -> tuple[int, Any]:
    """Return the HTTP status and the JSON body for a problem."""
    is_default = problem.status == 422
    status = _STATUS.get(problem.kind, problem.status) if is_default else problem.status
    return status, {"error": problem.message}


def router(service: Service) -> APIRouter:
    """Return the routes."""

    def routes_for(named: Any) -> APIRouter:
        routes = APIRouter(
            tags=["Open Inference Protocol"], responses=problems(V2Failure, 400, 415)
        )
        _add_server(routes, service, named)
        for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            _add_model(routes, service, path, named)
        return routes

    return for_each_run(routes_for)


def _add_server(routes: APIRouter, service: Service, named: Any) -> None:
    @routes.get("/v2", response_model=ServerMetadata)
    async def server(run: NamedRun = named) -> Json:
        """Return information about the server."""
        _check(service, run)
        extensions = ["binary_tensor_data"]
        return Json({"name": "heedful", "version": __version__, "extensions": extensions})

    @routes.get("/v2/health/live", response_model=Live)
    async def live(run: NamedRun = named) -> Json:
        """Return 200 if the server is alive."""
        _check(service, run)
        return Json({"live": True})

    @routes.get("/v2/health/ready", response_model=ServerReady)
    async def ready(run: NamedRun = named) -> Json:
        """Return 200 if the run named by the path, or else every run, is ready, else 503."""
        health.require_ready(service, run)
        return Json({"ready": True})


def _add_model(routes: APIRouter, service: Service, path: str, named: Any) -> None:
    @routes.get(path, response_model=ModelMetadata)
    async def metadata(model: str, version: str = VERSION, run: NamedRun = named) -> Json:
        """Return the names, datatypes and shapes of a run's tensors."""
        return Json(_metadata(_find(service, run or model, version)))

    @routes.get(f"{path}/ready", response_model=ModelReady)
    async def ready(model: str, version: str = VERSION, run: NamedRun = named) -> Json:
        """Return 200 if the run is ready, else 503."""
        served = _find(service, run or model, version)
        if not served.warm:
            raise Problem("not ready", f"{served.name} is not ready yet", retry_after=1)
        return Json({"name": served.name, "ready": True})

    @routes.post(f"{path}/infer", response_model=InferReply, openapi_extra=_REQUEST)
    async def infer(
        request: Request, model: str, version: str = VERSION, run: NamedRun = named
    ) -> Response:
        """Return the answers for texts as tensors."""
        served = _find(service, run or model, version)
        encoding = request.headers.get("content-encoding", "").strip().lower()
        content = decompressed(await request.body(), encoding, service.settings.max_body)
        parsed = read(content, request.headers.get(HEADER), service.settings)
        return await _infer(service, served, parsed)


def _check(service: Service, run: NamedRun) -> None:
    """Check that the run named by a path exists.

    Raises:
        Problem: it does not.
    """
    if run is not None:
        _find(service, run, VERSION)


def _find(service: Service, name: str, version: str) -> ServedRun:
    """Return the run with the given name.

    Raises:
        Problem: there is no such run, or no such version.
    """
    served = service.find(name, lambda served: True, "a run")
    if version != VERSION:
        raise Problem("not found", f"{name} has no such version; its only one is {VERSION}")
    return served


async def _infer(service: Service, served: ServedRun, request: InferRequest) -> Response:
    """Answer a request."""
    columns = columns_of(served.task)
    try:
        options = Options.model_validate(request.options).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise Problem("validation", f"parameters: {first_error(error.errors())}") from None
    if options.get("sample"):  # the outputs have only one text
        options["top"] = 1
    answers = await ask(service, served, texts_of(columns, request.texts), **options)
    tensors = {tensor.name: tensor for tensor in tensors_of(columns, answers)}
    requested = request.outputs or dict.fromkeys(tensors, request.as_bytes)
    for name in requested:
        if name not in tensors:
            raise Problem("validation", str(unknown_name("output", name, tensors)))
    fields = {"model_name": served.name, "model_version": VERSION}
    if request.id is not None:
        fields["id"] = request.id
    content = b""

    def make_reply() -> dict[str, Any]:
        nonlocal content
        content_json, content = write(
            fields, [tensors[name] for name in requested], list(requested.values())
        )
        return content_json

    head = await reply(make_reply, len(answers))
    if not any(requested.values()):
        return head
    return Response(
        bytes(head.body) + content,
        media_type="application/octet-stream",
        headers={HEADER: str(len(head.body))},
    )


def _metadata(served: ServedRun) -> dict[str, Any]:
    columns = columns_of(served.task)
    return {
        "name": served.name,
        "versions": [VERSION],
        "platform": "heedful",
        "inputs": [
            {"name": name, "datatype": "BYTES", "shape": [-1, -1] if name == "choices" else [-1]}
            for name in columns.inputs
        ],
        "outputs": [
            {"name": name, "datatype": datatype, "shape": [-1] * dimensions}
            for name, datatype, dimensions in columns.outputs
        ],
    }


def _inlined_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class, with all references inlined."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return inline(definitions[node["$ref"].rpartition("/")[2]])
            return {key: inline(value) for key, value in node.items()}
        return [inline(one) for one in node] if isinstance(node, list) else node

    inlined: dict[str, Any] = inline(schema)
    return inlined


_REQUEST: dict[str, Any] = {
    # The endpoint parses the body itself, since binary data may follow the JSON.
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _inlined_schema(InferBody)}},
    },
    "parameters": [
        {
            "name": HEADER,
            "in": "header",
            "description": "Bytes of the body that are JSON; binary tensors follow them.",
            "schema": {"type": "integer", "minimum": 0},
        }
    ],
}
