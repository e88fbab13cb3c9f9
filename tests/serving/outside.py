"""A server in its own process."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

SECONDS = 60
"""How long anything is waited for before a test fails."""


@dataclass(kw_only=True, slots=True)
class Server:
    """A running server."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)
    """Its lines on standard error, so far."""
    logged: list[str] = field(default_factory=list)
    """Those on standard output."""
    url: str = ""

    @property
    def port(self) -> int:
        """The port it listens at."""
        return int(self.url.rpartition(":")[2])

    def wait_until_said(self, pattern: str) -> re.Match[str]:
        """Return the first match in its output."""
        for _ in range(SECONDS * 50):
            for line in self.said:
                if match := re.search(pattern, line):
                    return match
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} is not in {self.said}")

    def wait_until_ready(self) -> None:
        """Return when it is ready."""
        for _ in range(SECONDS * 50):
            if httpx.get(f"{self.url}/health").status_code == 200:
                return
            time.sleep(0.02)
        raise AssertionError(f"it is not ready: {self.said}")


@contextmanager
def serving(*arguments: str | Path, port: int = 0) -> Iterator[Server]:
    """Run ``heedful serve`` until it is ready, and kill it in the end."""
    words = [str(word) for word in (*arguments, "--port", port)]
    with subprocess.Popen(
        [sys.executable, "-m", "heedful", "serve", *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        server = Server(process=process)
        readers = [
            threading.Thread(target=lambda: server.said.extend(process.stderr or [])),
            threading.Thread(target=lambda: server.logged.extend(process.stdout or [])),
        ]
        for reader in readers:
            reader.start()
        try:
            # Without a path that a proxy cuts off.
            server.url = server.wait_until_said(r"http://[^/\s]+").group()
            server.wait_until_ready()
            yield server
        finally:
            process.kill()
            for reader in readers:
                reader.join()
