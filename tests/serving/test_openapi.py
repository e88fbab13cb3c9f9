"""The OpenAPI document is complete, its examples work, and responses follow it.

A longer run of the last test: ``schemathesis run http://127.0.0.1:8000/openapi.json``.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.conftest import Live

jsonschema_rs = pytest.importorskip("jsonschema_rs", reason="needs schemathesis")

RUNS = {
    "/predict": "classify",
    "/rerank": "ranker",
    "/text-classification": "classify",
    "/zero-shot-classification": "nli",
    "/token-classification": "tag",
    "/question-answering": "answer",
    "/fill-mask": "pretrain",
    "/translation": "translate",
    "/explain": "classify",
    "/infer": "classify",
    "/models/{run}": "classify",
}
"""A run that can answer, for the last parts of paths; elsewhere ``embed``."""


@pytest.fixture(scope="module")
def document(live: Live) -> dict[str, Any]:
    document: dict[str, Any] = httpx.get(f"{live.url}/openapi.json").json()
    return document


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def address(path: str) -> str:
    run = next((name for end, name in RUNS.items() if path.endswith(end)), "embed")
    return path.replace("{run}", run).replace("{model}", run).replace("{version}", "1")


def check(instance: Any, media: dict[str, Any], document: dict[str, Any], where: str) -> None:
    schema = {**media["schema"], "components": document["components"]}
    errors = [
        error.message for error in jsonschema_rs.Draft202012Validator(schema).iter_errors(instance)
    ]
    assert not errors, f"{where}: {errors}"


def test_every_operation_is_told_whole(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids)) > 60
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["tags"], where
        named = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
        assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}, where
        assert {"200"} < set(operation["responses"]), where
        for status, response in operation["responses"].items():
            media = response["content"].get("application/json") or response["content"]["text/plain"]
            assert media["schema"], (where, status)
            check(media["example"], media, document, f"{where} {status}")
        if method == "post":
            media = operation["requestBody"]["content"]["application/json"]
            check(media["example"], media, document, f"{where} body")


def test_every_example_is_answered_as_the_document_says(
    document: dict[str, Any], live: Live
) -> None:
    with httpx.Client(base_url=live.url) as client:
        for method, path, operation in operations(document):
            where = f"{method} {path}"
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            reply = client.request(method, address(path), json=body.get("example"))
            if path.endswith("/image-classification"):  # no run of these reads pictures
                assert reply.status_code == 422
                continue
            assert reply.status_code == 200, (where, reply.text)
            if reply.headers["content-type"] == "application/json":
                media = operation["responses"]["200"]["content"]["application/json"]
                check(reply.json(), media, document, where)


def test_no_request_breaks_the_server_or_its_document(live: Live, tmp_path: Path) -> None:
    command = shutil.which("schemathesis", path=str(Path(sys.executable).parent))
    if command is None:
        pytest.skip("needs schemathesis")
    config = tmp_path / "schemathesis.toml"
    config.write_text('[parameters]\n"path.run" = "embed"\n"path.model" = "embed"\n')
    fuzzing = [
        # Under each run's path the same code answers; the examples ask there, too.
        *("--exclude-path-regex", "^/models/"),
        *("--max-examples", "2", "--seed", "1", "--phases", "examples,fuzzing"),
        *("--generation-database", "none", "--continue-on-failure", "--warnings", "off"),
        *("--suppress-health-check", "all", "--no-color"),
        # What is refused is refused for more than its form: a run that cannot, a text too long.
        *("--exclude-checks", "positive_data_acceptance,negative_data_rejection"),
    ]
    done = subprocess.run(
        [command, "--config-file", config, "run", f"{live.url}/openapi.json", *fuzzing],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
