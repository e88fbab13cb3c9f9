"""Settings and limits of the server."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from heedful.errors import UserError
from heedful.settings.ranges import AnswerPrecision, LongText, in_range

_ROOT = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|[0-9A-Fa-f.]*(:[0-9A-Fa-f.]*){2,}")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeSettings:
    """Address, inference settings and limits of the server."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0 chooses a free one."""
    allow_host: tuple[str, ...] = ()
    """Host names that requests may use, besides localhost and --host."""
    root_path: str = ""
    """Path prefix that a reverse proxy strips, such as /heedful."""
    api_key_file: Path | None = None
    """File with the API key that clients must send; default: $HEEDFUL_API_KEY, or none."""
    cors: tuple[str, ...] = ()
    """Allowed CORS origins, such as https://example.org; * for all."""
    log_texts: bool = False
    """Also log the texts of requests."""

    precision: AnswerPrecision = "auto"
    """Number format; auto uses bf16 if the hardware supports it, else fp32. int8 is the
    least exact: `heedful evaluate --precision int8` measures its cost on your data."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    long_text: LongText = "window"
    """What to do with a text longer than --max-length; requests can override this."""
    max_length: int | None = None
    """Longest input in tokens; default: as in training."""
    threads: int | None = None
    """Number of CPU threads that all runs share; default: as torch chooses."""
    batch_tokens: int = 2048
    """Maximum number of tokens per batch; texts of several requests share a batch."""
    batch_wait: float = 2.0
    """Milliseconds that a request waits for others to share its batch."""

    max_body: int = 2_000_000
    """Maximum size of a request body in bytes."""
    max_items: int = 1024
    """Maximum number of texts per request."""
    max_tokens: int = 131_072
    """Maximum number of tokens per request, over all its texts."""
    max_pixels: int = 100_000_000
    """Maximum number of pixels per request, over all its images."""
    max_filled: int = 20_000_000
    """Maximum number of characters of filled masks: each mask and candidate makes a text."""
    max_values: int = 4_000_000
    """Maximum number of values of the token vectors in an answer."""
    max_hypotheses: int = 16
    """Maximum number of generated texts per input, and maximum beam size."""
    explain_tokens: int = 256
    """Maximum number of tokens to explain, which takes far longer than a prediction."""
    explain_queue: int = 4
    """Maximum number of pending explanations; they are computed one by one."""
    queue_tokens: int = 1_000_000
    """Maximum number of tokens queued for a run; further requests are refused."""
    queue_seconds: float = 5.0
    """Maximum expected wait for a run in seconds; requests that would wait longer are refused."""
    timeout: float = 60.0
    """Maximum seconds for a request, from its first byte to its response."""
    read_timeout: float = 20.0
    """Maximum seconds to receive the head of a request, and then its body."""
    write_timeout: float = 20.0
    """Maximum seconds for a client to receive the next part of its response."""
    keep_alive: int = 5
    """Seconds that an idle connection stays open between requests."""
    connections: int = 512
    """Maximum number of concurrent requests; twice as many connections may be open."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("port", self.port, 0, 65_535, what="from 0 to 65,535")
        count = "a whole number of at least 1"
        for name in (
            *("threads", "batch_tokens", "max_length", "max_body", "max_items", "max_tokens"),
            *("max_pixels", "max_filled", "max_values", "max_hypotheses", "explain_tokens"),
            *("explain_queue", "queue_tokens", "connections", "keep_alive"),
        ):
            in_range(name, getattr(self, name), 1, math.inf, what=count)
        in_range("batch_wait", self.batch_wait, 0, 1000, what="from 0 to 1,000")
        for name in ("queue_seconds", "timeout", "read_timeout", "write_timeout"):
            in_range(name, getattr(self, name), 0.001, 1e6, what="a number above 0")
        if self.root_path and not _ROOT.fullmatch(self.root_path):
            raise UserError(f"--root-path {self.root_path}: must be a path like /heedful")
        for host in self.allow_host:
            if not _HOST.fullmatch(host):
                raise UserError(
                    f"--allow-host {host}: must be a name like models.example.org or an address, "
                    "without a scheme and a path"
                )
        for origin in self.cors:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise UserError(
                    f"--cors {origin}: must be an origin like https://example.org, or *"
                )
