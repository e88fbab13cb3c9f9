"""Who may send requests, how many and for how long; what is counted and logged."""

import asyncio
import json
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from tests.serving.inside import client_of, loaded, service_of

from heedful.cli import run
from heedful.errors import UserError
from heedful.serving.access import access_control
from heedful.serving.application import application
from heedful.serving.loading import Loaded
from heedful.serving.logs import LOG, JsonLines
from heedful.serving.protocols import PROTOCOLS
from heedful.serving.service import Service
from heedful.settings import ServeSettings

pytestmark = pytest.mark.anyio
KEY = "a-key-of-enough-characters"
PREDICT = "/api/runs/classify/predict"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def logged() -> Iterator[list[dict[str, Any]]]:
    """Provide the server's log, parsed from its lines."""
    lines: list[dict[str, Any]] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = JsonLines().format(record)
            assert line.isascii()
            assert "\n" not in line
            lines.append(json.loads(line))

    handler = Keeps()
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield lines
    LOG.removeHandler(handler)


def problem(reply: httpx.Response) -> tuple[int, str]:
    """Return the status and the message of a problem."""
    return reply.status_code, reply.json()["error"]["message"]


async def ask(client: httpx.AsyncClient, *texts: str, **more: Any) -> httpx.Response:
    """Ask for texts."""
    return await client.post(PREDICT, json={"texts": texts or ["the red cat sleeps"]}, **more)


async def test_only_the_hosts_it_was_started_for_are_answered() -> None:
    async with (
        service_of("classify", allow_host=("Models.Example", "other.example:8443")) as service,
        client_of(service) as client,
    ):
        for host, status in {
            "localhost:8000": 200,
            "127.0.0.1": 200,
            "[::1]:80": 200,
            "models.example": 200,
            "other.example:8443": 200,
            "other.example": 200,
            "evil.example": 421,
            "127.0.0.1.evil.example": 421,
            "192.168.0.1": 421,
            "localhost@evil.example": 421,
            "[": 421,
            "": 421,
            "\xe9": 421,
        }.items():
            reply = await client.get("/api/runs", headers={"host": host.encode("latin-1")})
            assert reply.status_code == status, host


@pytest.mark.parametrize(
    ("host", "other", "status"),
    [("0.0.0.0", "192.168.0.1", 200), ("0.0.0.0", "evil.example", 421), ("::", "[fe80::1]", 200)],
)
async def test_a_server_at_every_address_goes_by_each(host: str, other: str, status: int) -> None:
    async with service_of("classify", host=host) as service, client_of(service) as client:
        assert (await client.get("/api/runs", headers={"host": other})).status_code == status


async def test_pages_from_elsewhere_may_not_even_ask() -> None:
    async with service_of("classify") as service, client_of(service) as client:
        for origin, host, status in (
            ("http://localhost:8000", "localhost:8000", 200),
            ("http://[::1]:8000", "127.0.0.1:8000", 200),
            ("http://localhost", "localhost", 200),
            ("https://localhost", "localhost", 200),
            ("http://localhost:3000", "localhost:8000", 403),
            ("http://localhost", "localhost:8000", 403),
            ("http://localhost:3000", "localhost", 403),
            ("http://evil.example", "localhost", 403),
            ("http://localhost:99999", "localhost", 403),
            ("null", "localhost", 403),
            ("http://[", "localhost", 403),
        ):
            reply = await client.get("/api/runs", headers={"origin": origin, "host": host})
            assert reply.status_code == status, (origin, host)
            assert "access-control-allow-origin" not in reply.headers


async def test_the_page_behind_a_proxy_is_the_server_s_own() -> None:
    async with (
        service_of("classify", allow_host=("models.example",)) as service,
        client_of(service) as client,
    ):
        for origin, host, status in (
            ("https://models.example", "models.example", 200),
            ("https://models.example", "localhost:8000", 200),
            ("http://models.example:8000", "models.example:8000", 200),
            ("http://models.example:3000", "localhost:8000", 403),
        ):
            reply = await client.get("/api/runs", headers={"origin": origin, "host": host})
            assert reply.status_code == status, (origin, host)


async def answered(service: Service, target: str, **headers: str) -> tuple[int, dict[bytes, bytes]]:
    """Ask for a target as uvicorn hands it on, and return the status and the headers."""
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
    }
    sent: list[Any] = []
    asked = iter([{"type": "http.request", "body": b""}])

    async def receive() -> Any:
        if (first := next(asked, None)) is None:
            await asyncio.sleep(60)
        return first

    async def send(message: Any) -> None:
        sent.append(message)

    await application(service, access_control(service.settings))(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


async def test_a_target_may_name_the_host() -> None:
    """As some proxies send it; the header does not count then."""
    async with service_of("classify") as service:
        for target, expected in (
            ("http://localhost:8000/health", 200),
            ("HTTP://localhost/api/runs?a=b", 200),
            ("http://localhost/nowhere", 404),
            ("http://localhost", 200),
            ("http://evil.example/api/runs", 421),
            ("ftp://localhost/health", 404),
            ("*", 404),
        ):
            status, _ = await answered(service, target, host="localhost")
            assert status == expected, target
        status, _ = await answered(service, "http://localhost/api/runs", host="evil.example")
        assert status == 200


async def test_a_body_with_two_ends_ends_the_connection() -> None:
    async with service_of("classify") as service:
        length, encoding = {"content_length": "0"}, {"transfer_encoding": "chunked"}
        for headers, expected in ((length, 200), (encoding, 200), (length | encoding, 400)):
            status, sent = await answered(service, "/health", host="localhost", **headers)
            assert status == expected
            assert (sent.get(b"connection") == b"close") == (expected == 400)


async def test_what_is_nowhere_is_told_in_the_shape_of_what_is_asked_alike() -> None:
    async with service_of("classify") as service, client_of(service) as client:
        for path, kind in (
            ("/v1/chat/completions", dict),
            ("/api/nothing", dict),
            ("/nothing", dict),
            ("/v2/nothing", str),
            ("/pipeline/summarization", str),
            ("/models/classify/v1/nothing", dict),
            ("/models", dict),
        ):
            reply = await client.get(path)
            assert reply.status_code == 404
            error = reply.json()["error"]
            assert isinstance(error, kind), path
            assert "there is no such path" in (error if kind is str else error["message"])
            assert ("type" in error) == ("/v1/" in path)


async def test_pages_that_are_named_may_ask() -> None:
    origin = {"origin": "https://page.example"}
    wants = {"access-control-request-method": "POST"}
    async with (
        service_of("classify", cors=("https://page.example",)) as service,
        client_of(service) as client,
    ):
        allowed = await client.options(PREDICT, headers=origin | wants)
        assert allowed.headers["access-control-allow-origin"] == "https://page.example"
        reply = await ask(client, headers=origin)
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == "https://page.example"
        other = await ask(client, headers={"origin": "https://other.example"})
        assert other.status_code == 403


@pytest.mark.parametrize(
    "names",
    [
        "authorization,content-type,x-stainless-arch,x-stainless-retry-count",  # OpenAI's
        "content-type,inference-header-content-length",  # Triton's
    ],
)
async def test_pages_that_are_named_may_use_the_libraries_of_other_services(names: str) -> None:
    wants = {"access-control-request-method": "POST", "access-control-request-headers": names}
    async with (
        service_of("classify", cors=("https://page.example",)) as service,
        client_of(service) as client,
    ):
        allowed = await client.options(PREDICT, headers={"origin": "https://page.example"} | wants)
        assert allowed.status_code == 200
        # A browser would not take * for Authorization.
        assert allowed.headers["access-control-allow-headers"] == names
        other = await client.options(PREDICT, headers={"origin": "https://other.example"} | wants)
        assert other.status_code == 400
        reply = await ask(client, headers={"origin": "https://page.example"})
        exposed = reply.headers["access-control-expose-headers"].split(", ")
        assert "inference-header-content-length" in exposed


async def test_head_is_get_without_the_body(logged: list[dict[str, Any]]) -> None:
    paths = ("/", "/health", "/ping", "/health/live", "/v2/health/live", "/v2/health/ready")
    paths += ("/info", "/v1/models", "/metrics", "/models/classify", "/nowhere")
    async with service_of("classify") as service, client_of(service) as client:
        for path in paths:
            got, head = await client.get(path), await client.head(path)
            assert head.status_code == got.status_code, path
            assert head.headers["content-type"] == got.headers["content-type"]
            if path != "/metrics":  # it has grown meanwhile
                assert head.headers["content-length"] == got.headers["content-length"]
            assert head.content == b""
    lines = [line for line in logged if line["event"] == "request" and line["method"] == "HEAD"]
    assert [line["route"] for line in lines[-2:]] == ["/models/{run}", "none"]
    assert {line["bytes_out"] for line in lines} == {0}


async def test_another_method_is_told_which_there_are() -> None:
    async with service_of("classify") as service, client_of(service) as client:
        for method, path, allowed in (
            ("DELETE", "/", "GET, POST, HEAD"),
            ("PUT", "/models/classify", "GET, POST, HEAD"),
            ("GET", "/embed", "POST"),
            ("HEAD", PREDICT, "POST"),
            ("OPTIONS", "/openapi.json", "GET, HEAD"),
        ):
            reply = await client.request(method, path)
            assert (reply.status_code, reply.headers["allow"]) == (405, allowed), (method, path)


async def test_the_key_is_asked_of_all_but_those_who_look_after_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n", encoding="utf-8")
    monkeypatch.setenv("HEEDFUL_API_KEY", "another-key-that-the-file-beats")
    async with service_of("classify", api_key_file=path) as service, client_of(service) as client:
        for header, status in {
            f"Bearer {KEY}": 200,
            f"bearer {KEY}": 200,
            f"Bearer {KEY}x": 401,
            f"Bearer {KEY[:-1]}": 401,
            "Bearer ": 401,
            KEY: 401,
            f"Basic {KEY}": 401,
            "Bearer \xe9": 401,
        }.items():
            wanted = {"authorization": header.encode("latin-1")}
            reply = await client.get("/api/runs", headers=wanted)
            assert reply.status_code == status, header
        reply = await ask(client)
        assert problem(reply) == (401, "the API key is missing or wrong")
        assert reply.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.post("/", json={"inputs": "a"})).status_code == 401
        for path in ("/", "/health", "/health/live"):
            assert (await client.get(path)).status_code == 200


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEEDFUL_API_KEY", raising=False)
    assert access_control(ServeSettings()).key is None
    monkeypatch.setenv("HEEDFUL_API_KEY", KEY)
    assert access_control(ServeSettings()).key == KEY.encode()
    for short in ("", "short", "key with spaces in it", "k\xe9y-of-enough-characters"):
        monkeypatch.setenv("HEEDFUL_API_KEY", short)
        with pytest.raises(UserError, match="HEEDFUL_API_KEY: a key is 16 or more printable"):
            access_control(ServeSettings())
    with pytest.raises(UserError, match="--api-key-file nowhere: "):
        access_control(ServeSettings(api_key_file=Path("nowhere")))


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_is_bounded(chunked: bool) -> None:
    async def parts() -> Any:
        for _ in range(30):
            yield b" " * 100

    async with service_of("classify", max_body=1000) as service, client_of(service) as client:
        content = parts() if chunked else b" " * 3000
        assert problem(await client.post(PREDICT, content=content)) == (
            *(413, "a body may have at most 1,000 bytes"),
        )
        assert (await ask(client)).status_code == 200


async def talk(service: Service, receive: Callable[[], Any]) -> list[dict[str, Any]]:
    """Send a request by hand; return what is sent back."""
    client = client_of(service)
    app = client._transport.app  # type: ignore[attr-defined]
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": PREDICT,
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "state": {},
    }
    await app(scope, receive, send)
    return sent


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async with service_of("classify", read_timeout=0.05) as service:
        start, body = await talk(service, receive)
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    assert b"the body did not arrive within 0.05 s" in body["body"]


async def test_who_leaves_is_not_answered(logged: list[dict[str, Any]]) -> None:
    body = json.dumps({"texts": ["a"]}).encode()
    asked = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not asked.is_set():
            asked.set()
            return {"type": "http.request", "body": body, "more_body": False}
        while not service.runs["classify"].lane.queue.items:
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    async with service_of("classify", started=False) as service:
        assert await talk(service, receive) == []
        assert service.runs["classify"].lane.queue.items == 0
        assert 'route="/api/runs/{run}/predict",status="499"' in service.metrics.text().decode()
    assert [line["status"] for line in logged] == [499]


async def test_a_request_has_an_end() -> None:
    async with (
        service_of("classify", started=False, timeout=0.05) as service,
        client_of(service) as client,
    ):
        reply = await ask(client)
        assert problem(reply) == (503, "no answer within 0.05 s")
        assert reply.headers["retry-after"] == "1"
        assert service.runs["classify"].lane.queue.items == 0


async def test_requests_at_once_are_bounded_but_for_health() -> None:
    async with (
        service_of("classify", started=False, connections=2, timeout=5) as service,
        client_of(service) as client,
    ):
        waiting = [asyncio.create_task(ask(client)) for _ in range(2)]
        while service.runs["classify"].lane.queue.items < 2:
            await asyncio.sleep(0.001)
        reply = await ask(client)
        assert problem(reply) == (503, "too many requests at once")
        assert reply.headers["retry-after"] == "1"
        assert (await client.get("/health")).status_code == 200
        service.start()
        assert [reply.status_code for reply in await asyncio.gather(*waiting)] == [200, 200]
        assert (await ask(client)).status_code == 200


async def test_a_full_queue_says_when_to_come_again() -> None:
    async with (
        service_of("classify", started=False, queue_tokens=5) as service,
        client_of(service) as client,
    ):
        waiting = asyncio.create_task(ask(client))
        while not service.runs["classify"].lane.queue.items:
            await asyncio.sleep(0.001)
        reply = await ask(client)
        assert problem(reply) == (429, "the queue is full; try again in 1 s")
        assert reply.headers["retry-after"] == "1"
        service.start()
        assert (await waiting).status_code == 200


async def test_nothing_is_made_of_a_request_that_no_run_could_answer() -> None:
    async with service_of("classify", "tag", queue_seconds=10) as service:
        classify, tag = (served.lane for served in service.runs.values())
        async with client_of(service) as client:
            for lane in (classify, tag):
                assert (await client.post(PREDICT, content=b"{")).status_code == 422
                lane.speed.update(2000, 20)
                lane.queue.tokens_ahead += 3000 if lane is classify else 2500
            reply = await client.post(PREDICT, content=b"{")
            assert problem(reply) == (429, "the queue is full; try again in 25 s")
            assert reply.headers["retry-after"] == "25"
            assert (await client.get("/api/runs")).status_code == 200


async def test_ready_is_not_alive() -> None:
    async with service_of("classify", started=False) as service, client_of(service) as client:
        service.runs["classify"].warm = False
        assert (await client.get("/health/live")).json() == {"status": "alive"}
        reply = await client.get("/health")
        assert problem(reply) == (503, "not every run is ready yet")
        assert reply.headers["retry-after"] == "1"
        assert problem(await ask(client)) == (503, "classify is not ready yet")
        service.start()
        while not service.ready:
            await asyncio.sleep(0.001)
        assert (await client.get("/health")).json() == {"status": "ready"}
        assert (await ask(client)).status_code == 200


async def test_a_path_of_a_run_tells_of_that_run_alone() -> None:
    async with service_of("classify", "embed") as service, client_of(service) as client:
        service.runs["classify"].warm = False
        for path in ("health", "v2/health/ready"):
            assert (await client.get(f"/models/classify/{path}")).status_code == 503
            assert (await client.get(f"/models/embed/{path}")).status_code == 200
            assert (await client.get(f"/models/none/{path}")).status_code == 404
        assert (await client.get("/v2/health/ready")).status_code == 503
        for path in ("v2", "v2/health/live"):
            assert (await client.get(f"/models/classify/{path}")).status_code == 200
            assert (await client.get(f"/models/none/{path}")).status_code == 404


HOSTILE = (
    b"",
    b"{",
    b"\xff\xfe\x00",
    b"null",
    b"[" * 100_000,
    b'{"texts": ' + b"[" * 5000,
    b'{"texts": ["a"], "options": {"beam": 1e400}}',
    b'{"texts": ["a"], "options": {"top": ' + b"9" * 5000 + b"}}",
    b'{"texts": ["a"], "options": {"top": NaN}}',
    b'{"texts": ["a"], "options": {"precision": "bf16"}}',
    b'{"texts": ["a"], "__class__": "x"}',
    b'{"texts": [["a"]]}',
    b'{"texts": [["a", "b", "c"]]}',
    b'{"texts": [[]]}',
    b'{"texts": [1]}',
    b'{"texts": "a"}',
)
AS_JSON = {"content-type": "application/json"}


async def test_hostile_bodies_are_refused_in_one_line(logged: list[dict[str, Any]]) -> None:
    async with service_of("classify") as service, client_of(service) as client:
        for body in HOSTILE:
            status, message = problem(await client.post(PREDICT, content=body, headers=AS_JSON))
            assert status in (400, 413, 422), body[:80]
            assert "\n" not in message, body[:80]
            assert "Traceback" not in message, body[:80]
            assert len(message) < 300, body[:80]
            assert (await ask(client)).status_code == 200, body[:80]
    assert {line["event"] for line in logged} <= {"request", "ready"}


async def test_any_text_is_answered_or_refused() -> None:
    async with service_of("classify", "tag") as service, client_of(service) as client:
        for text in ("", " ", "\0", "\U0010ffff", "a\ud800", "é" * 300, "\r\n{}"):
            body = json.dumps({"texts": [text]}).encode()
            for name in ("classify", "tag"):
                path = f"/api/runs/{name}/predict"
                reply = await client.post(path, content=body, headers=AS_JSON)
                assert reply.status_code in (200, 422), (name, text)
                json.loads(reply.content)


async def test_what_is_no_json_is_said_to_be_none() -> None:
    async with service_of("classify", "embed") as service, client_of(service) as client:
        for path in (PREDICT, "/embed", "/v1/embeddings", "/"):
            no_json = "the body is not JSON in UTF-8; send it uncompressed"
            for body, said in (
                (b"{", no_json),
                (b'{"x": "\xff"}', no_json),
                (b"\x1f\x8b\x08\0", no_json),
                ('{"texts": ["\u2200", [], []]}'.encode("utf-16"), no_json),
                ('{"texts": ["\u2200", [], []]}'.encode("utf-16-le"), no_json),
                (b"[" * 9000, "the body: nested too deeply"),
                (b'{"top": ' + b"9" * 9000 + b"}", "the body: a number with too many digits"),
            ):
                reply = await client.post(path, content=body, headers=AS_JSON)
                assert reply.status_code == 400, (path, body[:80])
                assert said in reply.text, (path, body[:80])
            nothing = await client.post(path, headers=AS_JSON)
            assert "the body must be a JSON object" in nothing.text, path


async def test_no_route_drops_one_of_two_equal_keys() -> None:
    async with service_of("classify") as service, client_of(service) as client:
        routes = (await client.get("/openapi.json")).json()["paths"]
        asked = [path for path, methods in routes.items() if "post" in methods]
        assert PREDICT.replace("classify", "{run}") in asked
        for path in asked:
            path = path.format(run="classify", model="classify", version="1")
            reply = await client.post(
                path,
                content=b'{"a": {"inputs": [1], "inputs": [2]}}',
                headers={"content-type": "application/json"},
            )
            assert reply.status_code == 400, path
            assert "the body: 2 keys of one object are named 'inputs'" in reply.text, path


async def test_a_failure_tells_the_client_nothing_and_the_log_all(
    monkeypatch: pytest.MonkeyPatch, logged: list[dict[str, Any]]
) -> None:
    def broken(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("a secret")

    async with service_of("classify") as service, client_of(service) as client:
        monkeypatch.setattr(type(loaded("classify").predictor.task), "decode", broken)
        reply = await ask(client, headers={"x-request-id": "mine"})
    assert problem(reply) == (500, "the server failed; see its log")
    assert "secret" not in reply.text
    failures = [line for line in logged if line["event"] == "failure" and line.get("id") == "mine"]
    assert ["RuntimeError: a secret" in line["traceback"] for line in failures] == [True]


async def test_ids_are_those_of_clients_if_they_are_well_formed() -> None:
    async with service_of("classify") as service, client_of(service) as client:
        for wanted, kept in {"abc-1.2_3:4": True, "": False, "a b": False, "x" * 65: False}.items():
            reply = await client.get("/health", headers={"x-request-id": wanted})
            assert (reply.headers["x-request-id"] == wanted) is kept
            assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("log_texts", [False, True])
async def test_texts_are_logged_only_if_asked_for(
    log_texts: bool, logged: list[dict[str, Any]]
) -> None:
    async with service_of("classify", log_texts=log_texts) as service, client_of(service) as client:
        await ask(client, "a private text \u00e9\n\x1b[31m")
        await client.get("/a private path?a=private+query")
    lines = [line for line in logged if line["event"] == "request"]
    assert ["private" in json.dumps(line) for line in lines] == [log_texts, False]
    answered, lost = lines
    assert answered | {"seconds": 0, "queue_seconds": 0, "time": "", "id": "", "body": ""} == {
        **{"time": "", "level": "info", "event": "request", "id": "", "client": "127.0.0.1"},
        **{"method": "POST", "route": "/api/runs/{run}/predict", "status": 200, "seconds": 0},
        **{"bytes_in": answered["bytes_in"], "bytes_out": answered["bytes_out"], "body": ""},
        **{"run": "classify", "items": 1, "tokens": answered["tokens"], "queue_seconds": 0},
    }
    assert answered["tokens"] > 3
    assert (lost["route"], lost["status"]) == ("none", 404)


async def test_metrics_count_what_was_done() -> None:
    async with service_of("classify") as service, client_of(service) as client:
        await ask(client, "the red cat sleeps", "a", "the red cat sleeps and the red cat sleeps")
        await client.get("/nowhere")
        lines = (await client.get("/metrics")).text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    route = "/api/runs/{run}/predict"
    post = f'heedful_responses_total{{method="POST",route="{route}",status="200"}}'
    assert float(values[post]) == 1
    missing = 'heedful_responses_total{method="GET",route="none",status="404"}'
    assert float(values[missing]) == 1
    assert float(values['heedful_queue_items{run="classify"}']) == 0
    assert float(values['heedful_tokens_per_second{run="classify"}']) > 0
    # Three texts, and two that warm the run up.
    assert float(values['heedful_batch_items_sum{run="classify"}']) == 5
    tokens = float(values['heedful_tokens_total{run="classify"}'])
    assert tokens == float(values['heedful_batch_tokens_sum{run="classify"}'])
    assert float(values['heedful_padding_tokens_total{run="classify"}']) > 0
    assert float(values[f'heedful_request_seconds_count{{route="{route}"}}']) == 1


async def test_every_route_is_described() -> None:
    async with service_of("classify") as service, client_of(service) as client:
        described = (await client.get("/openapi.json")).json()["paths"]
        assert {"/api/runs", "/api/runs/{run}/predict", "/health", "/metrics"} <= set(described)
        for path in ("/docs", "/redoc"):  # they would load scripts from elsewhere
            assert (await client.get(path)).status_code == 404


async def test_the_errors_that_are_described_make_no_validator() -> None:
    async with service_of("classify") as service:
        routes = [route for protocol in PROTOCOLS for route in protocol.router(service).routes]
        direct = [r for r in routes if isinstance(r, APIRoute) and r.include_in_schema]
        assert all("default" in route.responses for route in direct)
        # One for each status of each route would keep a server from its start for seconds.
        assert not any(route.response_fields for route in direct)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no run to serve: heedful serve RUN [RUN ...]"),
        (["nowhere"], "nowhere: no such run folder"),
        (["x", "--port", "70000"], "--port 70000: must be from 0 to 65,535"),
        (["x", "--max-body", "0"], "--max-body 0: must be a whole number of at least 1"),
        (["x", "--queue-seconds", "0"], "--queue-seconds 0.0: must be a number above 0"),
        (["x", "--root-path", "x"], "--root-path x: must be a path like /heedful"),
        (["x", "--cors", "a.b"], "--cors a.b: must be an origin like https://example.org, or *"),
        (["x", "--api-key-file", "no"], "--api-key-file no: no such file"),
    ],
)
def test_what_a_user_gets_wrong_is_said_in_a_line(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["serve", *arguments]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"heedful: {said}")


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["serve", "x", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert said == f"heedful: --host 127.0.0.1 --port {port}: Address already in use\n"


def test_a_port_that_is_taken_while_runs_are_loaded_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]

        def load(*given: Any) -> Loaded:
            other.listen()
            return loaded("classify")

        monkeypatch.setattr("heedful.serving.server.load", load)
        assert run(["serve", "x", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert said == f"heedful: --host 127.0.0.1 --port {port}: Address already in use\n"


@pytest.mark.parametrize("host", ["https://b.example", "b.example/heedful", "", "b example"])
def test_what_is_no_host(host: str) -> None:
    with pytest.raises(UserError, match=r"must be a name like models\.example\.org or an address"):
        ServeSettings(allow_host=(host,))


@pytest.mark.parametrize("host", ["b.example", "b.example:80", "10.0.0.1", "::1", "fe80::1"])
def test_what_is_a_host(host: str) -> None:
    assert ServeSettings(allow_host=(host,)).allow_host == (host,)
