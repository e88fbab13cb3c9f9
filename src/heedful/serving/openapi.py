"""The OpenAPI document: FastAPI's document, with error schemas and examples added."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from heedful.serving.asking import PREFIX, SCHEMA
from heedful.serving.examples import EXCHANGES, REPLIES
from heedful.serving.problem import Kind, Problem

_VERSION = "/versions/{version}"

_KINDS: dict[str, tuple[Kind, str]] = {
    "400": ("validation", "inputs is empty"),
    "401": ("unauthorised", "the API key is missing or wrong"),
    "404": ("not found", "no run of that name; there are: tickets, minilm"),
    "413": ("too many", "2,000 texts; a request may have 1,024"),
    "415": ("validation", "Content-Encoding: give gzip, deflate, or none"),
    "422": ("validation", "unknown key 'input' (did you mean 'inputs'?); allowed: inputs"),
    "424": ("unable", "tickets is a classify run; this needs a run of embed"),
    "429": ("overloaded", "the queue is full; try again in 2 s"),
    "503": ("not ready", "tickets is not ready yet"),
}
_FAILED: tuple[Kind, str] = ("internal", "the server failed; see its log")

Render = Callable[[Problem], tuple[int, Any]]


def with_failures(document: dict[str, Any], failures: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """Add the schemas of error bodies to an OpenAPI document, in place, and return it.

    Args:
        document: FastAPI's document, which references the schemas.
        failures: the classes of the error bodies.
    """
    _, schemas = models_json_schema(
        [(failure, "serialization") for failure in failures], ref_template=SCHEMA
    )
    document["components"]["schemas"] |= schemas["$defs"]
    return document


def with_examples(
    document: dict[str, Any], render_of: Callable[[str, str], Render]
) -> dict[str, Any]:
    """Add examples to an OpenAPI document, in place, and return it.

    Args:
        document: FastAPI's document.
        render_of: returns the function that renders problems for a method and a path.
    """
    for path, operations in document["paths"].items():
        for name, operation in operations.items():
            method = name.upper()
            short = (path.removeprefix(PREFIX) or "/").replace(_VERSION, "")
            if method == "POST":
                request, reply = EXCHANGES[short]
                body = operation["requestBody"]["content"]["application/json"]
                body["example"] = request
            elif path in (PREFIX, f"{PREFIX}/health"):
                reply = REPLIES["GET /health"]
            else:
                reply = REPLIES[f"{method} {short}"]
            for status, response in operation["responses"].items():
                if status == "200":
                    _set_example(response, reply)
                else:
                    kind, message = _KINDS.get(status, _FAILED)
                    _set_example(response, render_of(method, path)(Problem(kind, message))[1])
    return document


def _set_example(response: dict[str, Any], example: Any) -> None:
    kind = "text/plain" if isinstance(example, str) else "application/json"
    response["content"].setdefault(kind, {})["example"] = example
