"""The Open Inference Protocol, version 2, which clients of KServe and Triton speak."""

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
from heedful.serving.limits import check_items
from heedful.serving.problem import Kind, Problem
from heedful.serving.protocols import health
from heedful.serving.protocols.runs import Options
from heedful.serving.service import Served, Service
from heedful.serving.tables import columns_of, tensors_of, texts_of
from heedful.serving.tensors import HEADER, Asked, InferBody, read, unpacked, write
from heedful.serving.wire import Json, reply

VERSION = "1"
"""Every run has this one version."""


class ServerMetadata(Reply):
    """What the server is."""

    name: str
    version: str
    extensions: list[str]


class Live(Reply):
    """Whether the server lives."""

    live: Literal[True] = True


class ServerReady(Reply):
    """Whether every run is ready."""

    ready: Literal[True] = True


class ModelReady(Reply):
    """Whether a run is ready."""

    name: str
    ready: Literal[True] = True


class TensorMetadata(Reply):
    """A tensor; -1 stands for any number."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(Reply):
    """The tensors of a run. Some tasks take or give others, too."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class OutputTensor(Reply):
    """A part of the answers."""

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
    """What went wrong."""

    error: str


_STATUS: dict[Kind, int] = {"validation": 400, "unable": 400, "empty": 400}


def render(problem: Problem) -> tuple[int, Any]:
    """Return the status and the JSON that tell a client of a problem."""
    usual = problem.status == 422
    status = _STATUS.get(problem.kind, problem.status) if usual else problem.status
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
        """Say what the server is."""
        _check(service, run)
        extensions = ["binary_tensor_data"]
        return Json({"name": "heedful", "version": __version__, "extensions": extensions})

    @routes.get("/v2/health/live", response_model=Live)
    async def live(run: NamedRun = named) -> Json:
        """Tell that the server lives."""
        _check(service, run)
        return Json({"live": True})

    @routes.get("/v2/health/ready", response_model=ServerReady)
    async def ready(run: NamedRun = named) -> Json:
        """Tell whether every run is ready, or the one that the path names: 200, or else 503."""
        health.require_ready(service, run)
        return Json({"ready": True})


def _add_model(routes: APIRouter, service: Service, path: str, named: Any) -> None:
    @routes.get(path, response_model=ModelMetadata)
    async def metadata(model: str, version: str = VERSION, run: NamedRun = named) -> Json:
        """Name the tensors of a run."""
        return Json(_metadata(_find(service, run or model, version)))

    @routes.get(f"{path}/ready", response_model=ModelReady)
    async def ready(model: str, version: str = VERSION, run: NamedRun = named) -> Json:
        """Tell whether a run is ready: 200, or else 503."""
        served = _find(service, run or model, version)
        if not served.warm:
            raise Problem("not ready", f"{served.name} is not ready yet", retry_after=1)
        return Json({"name": served.name, "ready": True})

    @routes.post(f"{path}/infer", response_model=InferReply, openapi_extra=_REQUEST)
    async def infer(
        request: Request, model: str, version: str = VERSION, run: NamedRun = named
    ) -> Response:
        """Answer for texts."""
        served = _find(service, run or model, version)
        encoding = request.headers.get("content-encoding", "").strip().lower()
        content = unpacked(await request.body(), encoding, service.settings.max_body)
        asked = read(content, request.headers.get(HEADER), service.settings)
        return await _infer(service, served, asked)


def _check(service: Service, run: NamedRun) -> None:
    """Raise if a path names a run that there is not.

    Raises:
        Problem: it does.
    """
    if run is not None:
        _find(service, run, VERSION)


def _find(service: Service, name: str, version: str) -> Served:
    """Return the run of a name.

    Raises:
        Problem: there is none, or not that version of it.
    """
    served = service.find(name, lambda served: True, "a run")
    if version != VERSION:
        raise Problem("not found", f"{name} has no such version; its only one is {VERSION}")
    return served


async def _infer(service: Service, served: Served, asked: Asked) -> Response:
    """Answer a request."""
    columns = columns_of(served.task)
    rows = (len(array) for array in asked.texts.values() if array.ndim)
    check_items(max(rows, default=0), service.settings)
    try:
        options = Options.model_validate(asked.options).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise Problem("validation", f"parameters: {first_error(error.errors())}") from None
    answers = await ask(service, served, texts_of(columns, asked.texts), **options)
    tensors = {tensor.name: tensor for tensor in tensors_of(columns, answers)}
    wanted = asked.outputs or dict.fromkeys(tensors, asked.as_bytes)
    for name in wanted:
        if name not in tensors:
            raise Problem("validation", str(unknown_name("output", name, tensors)))
    about = {"model_name": served.name, "model_version": VERSION}
    if asked.id is not None:
        about["id"] = asked.id
    content = b""

    def made() -> dict[str, Any]:
        nonlocal content
        told, content = write(about, [tensors[name] for name in wanted], list(wanted.values()))
        return told

    head = await reply(made, len(answers))
    if not any(wanted.values()):
        return head
    return Response(
        bytes(head.body) + content,
        media_type="application/octet-stream",
        headers={HEADER: str(len(head.body))},
    )


def _metadata(served: Served) -> dict[str, Any]:
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


def _whole_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class with those of its parts inside it."""
    schema = kind.model_json_schema()
    parts = schema.pop("$defs", {})

    def whole(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return whole(parts[node["$ref"].rpartition("/")[2]])
            return {key: whole(value) for key, value in node.items()}
        return [whole(one) for one in node] if isinstance(node, list) else node

    inlined: dict[str, Any] = whole(schema)
    return inlined


_REQUEST: dict[str, Any] = {
    # Read by hand, for bytes may follow the JSON.
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _whole_schema(InferBody)}},
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
