"""Images over HTTP: their bytes as clients send them, or base64; never a file of the server."""

import asyncio
import base64
import io
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.browser import Browser, assert_accessible
from tests.serving.conftest import serving
from tests.serving.inside import client_of, loaded, service_of, service_of_loaded

import heedful
from heedful.serving.examples import EXCHANGES
from heedful.serving.loading import load
from heedful.settings import ServeSettings

Image = pytest.importorskip("PIL.Image", reason="needs the extra [images]")


def _png(seed: int = 0) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 16, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


PICTURE = _png()
ENCODED = base64.b64encode(PICTURE).decode()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for label in ("a", "b"):
        (folder / "data" / label).mkdir(parents=True)
        (folder / "data" / label / "1.png").write_bytes(_png(ord(label)))
    heedful.train(
        "classify",
        train=folder / "data",
        out=folder / "run",
        format="images",
        preset="mini",
        image_size=16,
        patch_size=8,
        steps=1,
        precision="fp32",
        say=lambda line: None,
    )
    return folder / "run"


@pytest.fixture(scope="module")
def served(run: Path) -> Callable[[Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]], Any]:
    """Provide a function that asks a server of the run."""
    read = load(str(run), ServeSettings(precision="fp32"))

    def asked(ask: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
        async def both() -> Any:
            async with service_of_loaded(read) as service, client_of(service) as client:
                return await ask(client)

        return asyncio.run(both())

    return asked


@pytest.mark.parametrize("path", ["/", "/models/run", "/invocations"])
def test_bytes_as_hugging_faces_client_posts_them(run: Path, served: Any, path: str) -> None:
    headers = {"content-type": "image/png"}
    reply = served(lambda client: client.post(path, content=PICTURE, headers=headers))
    scores = heedful.load(run, precision="fp32")(PICTURE).scores
    assert reply.status_code == 200
    assert {row["label"]: row["score"] for row in reply.json()} == pytest.approx(scores, abs=1e-5)
    assert [row["score"] for row in reply.json()] == sorted(scores.values(), reverse=True)


def test_base64_with_parameters(served: Any) -> None:
    body = {"inputs": ENCODED, "parameters": {"top_k": 1, "function_to_apply": "none"}}
    for path in ("/", "/pipeline/image-classification"):
        (row,) = served(lambda client, path=path: client.post(path, json=body)).json()
        assert row["label"] in ("a", "b")


def test_the_example_of_the_document_is_answered(served: Any) -> None:
    path = "/pipeline/image-classification"
    example, _ = EXCHANGES[path]
    reply = served(lambda client: client.post(path, json=example))
    assert [row["label"] for row in reply.json()] in (["a", "b"], ["b", "a"])


def test_heedfuls_own_protocol_takes_base64_and_data_urls(run: Path, served: Any) -> None:
    texts = [ENCODED, f"data:image/png;base64,{ENCODED}"]
    path = "/api/runs/run/predict"
    reply = served(lambda client: client.post(path, json={"texts": texts})).json()
    label = heedful.load(run, precision="fp32")(PICTURE).label
    assert [one["label"] for one in reply["answers"]] == [label] * 2


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("/etc/passwd", "expected the bytes of an image in base64"),
        ("../../secret.png", "expected the bytes of an image in base64"),
        ("é", "expected the bytes of an image in base64"),
        ("", "empty"),
        (base64.b64encode(b"no picture").decode(), "not an image in a supported format"),
        (base64.b64encode(PICTURE[:200]).decode(), "damaged image"),
    ],
)
def test_what_is_no_picture(served: Any, inputs: str, message: str) -> None:
    reply = served(lambda client: client.post("/models/run", json={"inputs": inputs}))
    assert reply.status_code in (400, 422)
    assert message in reply.json()["error"]
    path = "/api/runs/run/predict"
    reply = served(lambda client: client.post(path, json={"texts": [inputs]}))
    assert reply.status_code in (400, 422)
    assert message in reply.json()["error"]["message"]


def test_too_many_pixels_are_one_line(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heedful.images.opening.MAX_PIXELS", 100)
    headers = {"content-type": "image/png"}
    reply = served(lambda client: client.post("/", content=PICTURE, headers=headers))
    assert reply.status_code in (400, 422)
    assert "image 1: 16 x 20 pixels; images of at most 100 are read" in reply.json()["error"]


def test_the_pixels_of_a_request_are_limited_in_total(run: Path) -> None:
    async def ask() -> list[httpx.Response]:
        read = load(str(run), ServeSettings(precision="fp32"))
        path, explain = "/api/runs/run/predict", "/api/runs/run/explain"
        async with (
            service_of_loaded(read, max_pixels=3 * 16 * 20) as service,
            client_of(service) as client,
        ):
            replies = [await client.post(path, json={"texts": [ENCODED] * n}) for n in (3, 4)]
            return [*replies, await client.post(explain, json={"text": ENCODED})]

    allowed, refused, explained = asyncio.run(ask())
    assert (allowed.status_code, refused.status_code) == (200, 413)
    assert explained.status_code == 200
    said = "1,280 pixels of images; a request may have 960; send them in several requests"
    assert said in refused.json()["error"]["message"]


def test_the_pixels_of_an_explained_picture_are_limited(run: Path) -> None:
    async def ask() -> httpx.Response:
        read = load(str(run), ServeSettings(precision="fp32"))
        async with service_of_loaded(read, max_pixels=300) as service, client_of(service) as client:
            return await client.post("/api/runs/run/explain", json={"text": ENCODED})

    refused = asyncio.run(ask())
    assert refused.status_code == 413
    assert "320 pixels of images; a request may have 300" in refused.json()["error"]["message"]


def test_texts_of_text_embeddings_inference_go_to_a_run_of_texts(run: Path) -> None:
    async def ask() -> httpx.Response:
        runs = load(str(run), ServeSettings(precision="fp32")), loaded("classify")
        async with service_of_loaded(*runs) as service, client_of(service) as client:
            return await client.post("/predict", json={"inputs": "the red cat sleeps"})

    reply = asyncio.run(ask())
    assert reply.status_code == 200
    assert reply.json()[0]["label"] == "animal"


def test_a_run_of_texts_reads_no_bytes() -> None:
    async def ask() -> httpx.Response:
        async with service_of("classify") as service, client_of(service) as client:
            return await client.post("/", content=PICTURE, headers={"content-type": "image/png"})

    reply = asyncio.run(ask())
    assert reply.status_code == 422
    assert "this needs a run of classify on images" in reply.json()["error"]


@pytest.mark.parametrize("path", ["/", "/models/classify", "/invocations"])
@pytest.mark.parametrize("body", [b' {"inputs": "a"}', b"[1]", "inputs=the café".encode()])
def test_a_run_of_texts_is_told_of_no_pictures(path: str, body: bytes) -> None:
    async def ask() -> httpx.Response:
        form = {"content-type": "application/x-www-form-urlencoded"}  # as curl -d says
        async with service_of("classify") as service, client_of(service) as client:
            return await client.post(path, content=body, headers=form)

    reply = asyncio.run(ask())
    assert reply.status_code == 422
    told = "the body must be a JSON object, sent as Content-Type: application/json"
    assert reply.json() == {"error": told}


def test_a_run_of_pictures_is_told_of_json_without_its_type(served: Any) -> None:
    content = json.dumps({"inputs": ENCODED}).encode()
    reply = served(lambda client: client.post("/", content=content))
    assert reply.status_code == 422
    assert "sent as Content-Type: application/json" in reply.json()["error"]


def test_the_page_takes_a_picture(run: Path, tmp_path: Path, chromium: Browser) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    (tmp_path / "it.png").write_bytes(PICTURE)
    with serving({"run": run}, tmp_path / "log") as live:
        label = live.load("run")(PICTURE).label
        chromium.open(live.url)
        driver = chromium.driver
        wait = WebDriverWait(driver, 60)
        chooser = wait.until(lambda driver: driver.find_element("id", "picture"))
        chooser.send_keys(str(tmp_path / "it.png"))
        seen = driver.find_element("class name", "seen")
        wait.until(lambda driver: seen.is_displayed())
        assert_accessible(chromium)
        driver.find_element("css selector", "#ask button:not([type=button])").click()
        wait.until(lambda driver: driver.find_element("id", "answer").text.startswith(label))
        driver.find_element("id", "clear").click()
        assert not driver.find_elements("css selector", ".seen:not([hidden])")
        assert chromium.complaints() == []
