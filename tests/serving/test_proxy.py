"""The page and the clients' routes behind a proxy that cuts a path off."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from tests.browser import Browser
from tests.serving.browsing import ask, open_run, texts_of
from tests.serving.conftest import GOLDEN
from tests.serving.outside import SECONDS, serving

PATH = "/heedful"
HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding"}


class Proxy(ThreadingHTTPServer):
    """Forwards requests below `PATH`, without the prefix, and records all others."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.behind = ""
        self.lost: list[str] = []


class Passing(BaseHTTPRequestHandler):
    """One request to a proxy."""

    def do_GET(self) -> None:
        proxy = self.server
        assert isinstance(proxy, Proxy)
        below = self.path.removeprefix(PATH)
        if below == self.path:
            proxy.lost.append(self.path)
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        reply = httpx.request(
            self.command,
            proxy.behind + below,
            headers=dict(self.headers),
            content=body,
            timeout=SECONDS,
        )
        self.send_response(reply.status_code)
        for name, value in reply.headers.items():
            if name not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def proxied() -> Iterator[tuple[str, Proxy]]:
    """Serve a run behind a proxy; give the proxy's address, with `PATH`."""
    with Proxy() as proxy:
        host = f"127.0.0.1:{proxy.server_port}"
        options = ("--root-path", PATH, "--allow-host", host, "--precision", "fp32")
        with serving(GOLDEN / "classify", *options) as server:
            proxy.behind = server.url
            thread = threading.Thread(target=proxy.serve_forever)
            thread.start()
            try:
                yield f"http://{host}{PATH}", proxy
            finally:
                proxy.shutdown()
                thread.join()


def test_the_page_works_behind_a_proxy_that_cuts_a_path_off(chromium: Browser) -> None:
    with proxied() as (url, proxy):
        open_run(chromium, url, "classify")
        assert ask(chromium, "a red cat").startswith("food")
        lines = texts_of(chromium, "pre")
        assert any(f"{url}/api/runs/classify/predict" in text for text in lines)
        (described,) = httpx.get(f"{url}/openapi.json", timeout=SECONDS).json()["servers"]
        assert described["url"] == PATH
        assert not proxy.lost
