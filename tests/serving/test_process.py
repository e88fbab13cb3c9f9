"""A server process: its output, its signals, and malicious clients."""

import json
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi", reason="needs the extra [serve]")

from tests.alike import same
from tests.serving.inside import RUNS, TEXTS
from tests.serving.outside import SECONDS, Server, serving

import heedful
from heedful.files import write_manifest
from heedful.serving.loading import version_of

HEAD = b"POST /api/runs/classify/predict HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a copy of a run, to be changed."""
    return Path(shutil.copytree(RUNS / "classify", tmp_path_factory.mktemp("runs") / "classify"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    limits = ("--read-timeout", "0.5", "--write-timeout", "0.5", "--keep-alive", "1")
    with serving(
        folder, RUNS / "tag", *limits, "--precision", "fp32", "--queue-seconds", "999"
    ) as server:
        yield server


def answer(server: Server, run: str, *texts: object) -> list[dict[str, object]]:
    """Return the answers of a run."""
    reply = httpx.post(f"{server.url}/api/runs/{run}/predict", json={"texts": texts}, timeout=60)
    assert reply.status_code == 200, reply.text
    rows: list[dict[str, object]] = reply.json()["answers"]
    return rows


def sent(server: Server, data: bytes, *, close: bool = False) -> bytes:
    """Send bytes, and return everything received until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as connection:
        try:
            connection.sendall(data)
            if close:
                with suppress(OSError):  # the server may have closed it by now
                    connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65_536), b""))
        except ConnectionError:
            return b""


def test_a_server_answers_as_predict_does(server: Server) -> None:
    assert [row["name"] for row in httpx.get(f"{server.url}/api/runs").json()["runs"]] == [
        *("classify", "tag")
    ]
    for run in ("classify", "tag"):
        predictor = heedful.load(RUNS / run, precision="fp32")
        expected = [one.to_dict() for one in predictor(TEXTS[run])]
        assert same(answer(server, run, *TEXTS[run]), expected)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"G",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: y",
        HEAD + b"Content-Length: 100\r\n\r\n" + b"{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea",
    ],
    ids=["nothing", "a letter", "half a head", "half a body", "half a chunk", "a second half"],
)
def test_who_sends_half_is_not_waited_for(server: Server, data: bytes) -> None:
    reply = sent(server, data)
    assert reply == b"" or reply.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 200 "))
    assert answer(server, "classify", "the red cat sleeps")[0]["label"] == "animal"


def test_a_connection_goes_on_after_head(server: Server) -> None:
    head, get = (f"{method} /health HTTP/1.1\r\nHost: localhost\r\n" for method in ("HEAD", "GET"))
    asked = f"{head}\r\n{head}\r\n{get}Connection: close\r\n\r\n"
    *heads, body = sent(server, asked.encode()).split(b"\r\n\r\n")
    assert body == b'{"status":"ready"}'
    for one in heads:
        assert one.startswith(b"HTTP/1.1 200 ")
        assert b"content-length: 18\r\n" in one
    assert len(heads) == 3


def test_dripping_clients_hold_nobody_up(server: Server) -> None:
    drips = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(40)]
    try:
        for drip in drips[:20]:
            drip.sendall(b"GET / HTTP/1.1\r\nX: ")
        for drip in drips[20:]:
            drip.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        assert answer(server, "classify", "the red cat sleeps")[0]["label"] == "animal"
        for drip in drips:
            drip.settimeout(SECONDS)
            try:
                while drip.recv(65_536):
                    pass
            except ConnectionError:
                pass
    finally:
        for drip in drips:
            drip.close()


def test_a_body_far_over_the_limit_gets_a_response(server: Server) -> None:
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)) as connection:
        # It sends the whole body before it reads the response.
        connection.request("POST", "/api/runs/classify/predict", body=b" " * 50_000_000)
        reply = connection.getresponse()
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        said = json.load(reply)["error"]["message"]
    assert said == "a body may have at most 2,000,000 bytes"


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"\0" * 1000,
        b"\r\n" * 5000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999999999\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n",
        HEAD + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n",
        b"GET http://evil.example/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /api/runs/..%2f..%2fetc/predict HTTP/1.1\r\nHost: localhost\r\n"
        b'Content-Type: application/json\r\nContent-Length: 14\r\n\r\n{"texts": [""]}',
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 300_000,
    ],
)
def test_hostile_bytes_are_refused(server: Server, data: bytes) -> None:
    reply = sent(server, data, close=True)
    status = reply.split(b" ")[1] if reply else b""
    assert status in (b"", b"400", b"404", b"405", b"413", b"421", b"422")
    assert b"Traceback" not in reply
    assert answer(server, "classify", "the red cat sleeps")[0]["label"] == "animal"


def test_a_changed_folder_is_taken_up_without_losing_a_request(
    server: Server, folder: Path
) -> None:
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    stop = threading.Event()
    labels: list[object] = []

    def keep_asking() -> None:
        while not stop.is_set():
            labels.append(answer(server, "classify", "the red cat sleeps")[0]["label"])

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        weights.write_bytes(whole[:100])  # as who copies a run over it leaves it for a moment
        server.process.send_signal(signal.SIGHUP)
        server.wait_until_said(r"^classify: unchanged, because it could not be reloaded: .*bytes")
        assert answer(server, "classify", "the red cat sleeps")[0]["label"] == "animal"
        weights.write_bytes(whole)
        record = json.loads((folder / "heedful.json").read_text("utf-8"))
        record["goal"]["labels"] = [f"new {label}" for label in record["goal"]["labels"]]
        (folder / "heedful.json").write_text(json.dumps(record), "utf-8")
        (folder / "manifest.json").unlink()
        server.process.send_signal(signal.SIGHUP)
        server.wait_until_said(r"^classify: unchanged, because .*training has not finished")
        write_manifest(folder)
        server.process.send_signal(signal.SIGHUP)
        server.wait_until_said(r"^classify: reloaded")
    finally:
        stop.set()
        asking.join()
    assert labels[0] == "animal"
    assert set(labels) <= {"animal", "new animal"}
    assert answer(server, "classify", "the red cat sleeps")[0]["label"] == "new animal"
    assert "tag: unchanged\n" in server.said


def test_a_folder_has_changed_where_one_in_it_has(tmp_path: Path) -> None:
    folder = shutil.copytree(RUNS / "embed", tmp_path / "embed")
    before = version_of(str(folder))
    assert version_of(str(folder)) == before
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text("utf-8") + "\n", "utf-8")
    assert version_of(str(folder)) != before


def test_a_killed_server_comes_back_and_a_stopped_one_drains(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)):
        server.process.kill()
        server.process.wait(SECONDS)
    with serving(
        RUNS / "classify", "--batch-tokens", "8", "--queue-seconds", "999", port=server.port
    ) as again:
        replies: list[list[dict[str, object]]] = []
        long = threading.Thread(
            target=lambda: replies.append(answer(again, "classify", *["the red cat"] * 400))
        )
        long.start()
        while 'heedful_queue_items{run="classify"} 0.0' in httpx.get(f"{again.url}/metrics").text:
            pass
        again.process.send_signal(signal.SIGTERM)
        long.join()
        assert [len(reply) for reply in replies] == [400]
        assert again.process.wait(SECONDS) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{again.url}/health")
    events = [json.loads(line) for line in again.logged]
    assert {event["event"] for event in events} == {"ready", "request"}
    assert any(event.get("items") == 400 for event in events)
