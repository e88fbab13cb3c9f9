"""How a server answers, and what it refuses."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from heedful.errors import UserError
from heedful.settings.ranges import AnswerPrecision, LongText, in_range

_ROOT = re.compile(r"(/[A-Za-z0-9._~-]+)+")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeSettings:
    """Where a server listens, how it computes, and its limits."""

    host: str = "127.0.0.1"
    """Address to listen at."""
    port: int = 8000
    """Port to listen at; 0 takes a free one."""
    allow_host: tuple[str, ...] = ()
    """Host names that requests may be for, beside localhost and --host."""
    root_path: str = ""
    """Path that a proxy in front cuts off, such as /heedful."""
    api_key_file: Path | None = None
    """File with the key that clients must send; default: the variable HEEDFUL_API_KEY, or none."""
    cors: tuple[str, ...] = ()
    """Origins whose pages may use the server, such as https://example.org; * for all."""
    log_texts: bool = False
    """Log the texts of requests, too."""

    precision: AnswerPrecision = "auto"
    """Number format; auto uses bf16 where the hardware computes it, else fp32. int8
    rounds most: `heedful evaluate --precision int8` says what that costs on your data."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    long_text: LongText = "window"
    """What to do with a text longer than --max-length, unless a request says otherwise."""
    max_length: int | None = None
    """Longest input in tokens; default: as in training."""
    threads: int | None = None
    """CPU threads that all runs share; default: as many as torch takes."""
    batch_tokens: int = 2048
    """Largest batch, in tokens; texts of several requests share a batch."""
    batch_wait: float = 2.0
    """Milliseconds that a first request waits for others to share its batch."""

    max_body: int = 2_000_000
    """Most bytes of a request's body."""
    max_items: int = 1024
    """Most texts of a request."""
    max_tokens: int = 131_072
    """Most tokens of a request, all its texts together."""
    max_filled: int = 20_000_000
    """Most characters of texts with masks filled in: one text for each mask and candidate."""
    max_hypotheses: int = 16
    """Most texts that may be written for one text, and the widest beam."""
    explain_tokens: int = 256
    """Most tokens of a text that is explained, which takes far longer than to answer."""
    explain_queue: int = 4
    """Most explanations that are asked for at once; they are computed one by one."""
    queue_tokens: int = 1_000_000
    """Most tokens that wait for a run; more are refused."""
    queue_seconds: float = 5.0
    """Longest wait for a run, by the speed measured so far; who would wait longer is refused."""
    timeout: float = 60.0
    """Most seconds for a request, from its first byte to its answer."""
    read_timeout: float = 20.0
    """Most seconds in which the head of a request must come, and then its body."""
    write_timeout: float = 20.0
    """Most seconds in which a client must take the next part of its answer."""
    keep_alive: int = 5
    """Seconds that a connection stays open between two requests."""
    connections: int = 512
    """Most requests at once; twice as many connections may be open."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        in_range("port", self.port, 0, 65_535, what="from 0 to 65,535")
        count = "a whole number of at least 1"
        for name in (
            *("threads", "batch_tokens", "max_length", "max_body", "max_items", "max_tokens"),
            *("max_filled", "max_hypotheses", "explain_tokens", "explain_queue", "queue_tokens"),
            *("connections", "keep_alive"),
        ):
            in_range(name, getattr(self, name), 1, math.inf, what=count)
        in_range("batch_wait", self.batch_wait, 0, 1000, what="from 0 to 1,000")
        for name in ("queue_seconds", "timeout", "read_timeout", "write_timeout"):
            in_range(name, getattr(self, name), 0.001, 1e6, what="a number above 0")
        if self.root_path and not _ROOT.fullmatch(self.root_path):
            raise UserError(f"--root-path {self.root_path}: must be a path like /heedful")
        for origin in self.cors:
            if origin != "*" and not _ORIGIN.fullmatch(origin):
                raise UserError(
                    f"--cors {origin}: must be an origin like https://example.org, or *"
                )
