"""The page on errors: its messages, the key that it asks for, and the code for programs."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.browser import Browser, assert_accessible
from tests.serving.browsing import (
    all_of,
    answer_to,
    ask,
    by_id,
    open_run,
    submit,
    text_of,
    type_into,
    wait,
)
from tests.serving.conftest import GOLDEN, Live
from tests.serving.outside import Server, serving

KEY = "a-key-of-enough-characters"


@pytest.mark.parametrize(
    ("status", "message", "sentence"),
    [
        (413, "the texts have over 9 tokens", "over 9 tokens. Shorten the text, or send it"),
        (422, "text 1: <b>empty</b>", "This cannot be answered: text 1: <b>empty</b>."),
        (429, "the queue is full", "The server is busy. Try again in 7 s."),
        (503, "classify is not ready yet", "Classify is not ready yet. Try again in 7 s."),
        (500, "?", "The server failed to answer this. The reason is in its log."),
        (418, "a teapot", "The server refused this: a teapot."),
    ],
)
def test_a_refusal_is_a_sentence(
    page: Browser, live: Live, status: int, message: str, sentence: str
) -> None:
    open_run(page, live.url, "classify")
    ask(page, "the blue horse")
    body = json.dumps(json.dumps({"error": {"kind": "x", "message": message}}))
    answer_to(page, body, status)
    submit(page)
    assert sentence in wait(page, lambda: text_of(page, "problem"))
    assert text_of(page, "answer") == ""  # the answer before was to something else
    assert all_of(page, "#problem b") == []
    if status == 422:
        assert_accessible(page)


def test_a_network_that_is_gone_is_told(page: Browser, live: Live) -> None:
    open_run(page, live.url, "classify")
    type_into(page, 0, "the blue horse sleeps")
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.driver.execute_cdp_cmd("Network.enable", {})
    try:
        page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", network | {"offline": True})
        submit(page)
        wait(page, lambda: "The server cannot be reached." in text_of(page, "problem"))
    finally:
        page.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions", network | {"offline": False}
        )
        page.driver.execute_cdp_cmd("Network.disable", {})
    assert all("ERR_INTERNET_DISCONNECTED" in line for line in page.wait_for_complaints())
    submit(page)
    assert wait(page, lambda: text_of(page, "spoken")).startswith("animal")
    assert text_of(page, "problem") == ""


def test_what_is_too_large_is_refused_by_the_server_itself(page: Browser, live: Live) -> None:
    open_run(page, live.url, "classify")
    type_into(page, 0, "word " * 500_000)
    submit(page)
    assert "a body may have at most 2,000,000 bytes" in wait(page, lambda: text_of(page, "problem"))
    assert all("413" in line for line in page.wait_for_complaints())


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Server]:
    """Provide the address of a server that asks for a key."""
    (tmp_path / "key").write_text(KEY, encoding="utf-8")
    with serving(GOLDEN / "classify", "--api-key-file", tmp_path / "key") as server:
        yield server


def test_the_key_is_asked_for_once_and_kept_in_memory(chromium: Browser, keyed: Server) -> None:
    reply = httpx.get(f"{keyed.url}/", headers={"accept": "text/html"})
    assert (reply.status_code, "classify" in reply.text) == (200, False)  # no name of a run
    chromium.open(f"{keyed.url}/")
    wait(chromium, lambda: by_id(chromium, "key-form").is_displayed())
    assert not by_id(chromium, "runs").is_displayed()
    assert_accessible(chromium)
    by_id(chromium, "key").send_keys("wrong\n")
    wait(chromium, lambda: "not the key" in text_of(chromium, "key-problem"))
    by_id(chromium, "key").send_keys(f"{KEY}\n")
    wait(chromium, lambda: by_id(chromium, "runs").is_displayed())
    assert ask(chromium, "the blue horse sleeps").startswith("animal")
    assert "$HEEDFUL_API_KEY" in text_of(chromium, "curl")
    assert KEY not in text_of(chromium, "lines")
    stored = (
        "return Object.values(localStorage).concat(Object.values(sessionStorage), document.cookie)"
    )
    assert KEY not in str(chromium.driver.execute_script(stored))
    assert all("401" in line for line in chromium.wait_for_complaints())
    assert len(keyed.logged) > 1
    assert not any("horse" in line or KEY in line for line in keyed.logged)


@pytest.mark.parametrize(
    ("run", "texts"),
    [
        ("classify", ['it\'s the "blue" $HOME `horse` 🎉 \\ sleeps\nhere']),
        ("answer", ["where is it?", "Carla eats cheese in Oslo. it's red."]),
    ],
)
def test_the_lines_for_programs_do_the_same(
    page: Browser, live: Live, run: str, texts: list[str]
) -> None:
    open_run(page, live.url, run)
    ask(page, *texts)
    shown = json.loads(text_of(page, "json"))
    by_shell = subprocess.run(
        ["bash", "-c", text_of(page, "curl")], capture_output=True, text=True, check=True
    )
    assert json.loads(by_shell.stdout)["answers"] == [shown]
    pytest.importorskip("requests", reason="the lines for Python use it")
    lines = text_of(page, "python")
    by_python = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, check=True
    )
    assert ast.literal_eval(by_python.stdout) == [shown]


def test_the_page_says_where_it_is_and_what_is_logged() -> None:
    page = pytest.importorskip("heedful.serving.protocols.page", reason="needs the extra [serve]")
    behind = page.render_page("/a/proxy", False)
    assert '{"root":"/a/proxy"}' in behind
    assert "not logged" in behind
    assert "This server logs texts." in page.render_page("", True)
    assert "not logged" not in page.render_page("", True)


def test_only_a_browser_gets_the_page(live: Live) -> None:
    for accept in ("*/*", "application/json", ""):
        reply = httpx.get(f"{live.url}/", headers={"accept": accept})
        assert (reply.status_code, reply.json()) == (200, {"status": "ready"})
    reply = httpx.get(f"{live.url}/", headers={"accept": "text/html,*/*;q=0.8"})
    assert reply.headers["content-type"].startswith("text/html")
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert reply.headers["vary"] == "accept"
