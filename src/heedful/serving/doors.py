"""Who may ask: host names, pages of other origins, and the API key."""

import hmac
import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from heedful.errors import UserError
from heedful.serving.problem import Problem
from heedful.settings import ServeSettings

KEY_VARIABLE = "HEEDFUL_API_KEY"
_SHORTEST_KEY = 16
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_USUAL = {"http": 80, "https": 443}
"""Ports that an address does not name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Doors:
    """Lets requests in, or not."""

    hosts: frozenset[str]
    """Names that the server goes by, in small letters."""
    any_address: bool
    """Whether it goes by every IP address, too. No page can make a browser send one as the name of
    its own host, as DNS rebinding does with a name."""
    origins: frozenset[str]
    """Pages that may use it from a browser."""
    key: bytes | None
    """What clients must know."""

    def check(self, headers: Mapping[bytes, bytes], *, needs_key: bool) -> None:
        """Let a request in.

        Args:
            headers: of the request, with names in small letters.
            needs_key: whether what it asks for is behind the key.

        Raises:
            Problem: it is for another host, from a page elsewhere, or does not know the key.
        """
        host, port = _host_of(headers.get(b"host", b""))
        if not self._is_ours(host):
            message = "this server does not go by that host name; --allow-host adds names"
            raise Problem("forbidden", message, status=421)
        origin = headers.get(b"origin")
        if origin is not None and not self._may_use(origin, host, port):
            raise Problem(
                "forbidden", "pages of that origin may not use this server; --cors names more"
            )
        if needs_key and self.key is not None:
            scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(key.strip(), self.key):
                raise Problem("unauthorised", "the API key is missing or wrong")

    def _is_ours(self, host: str) -> bool:
        return host in self.hosts or (self.any_address and _is_address(host))

    def _may_use(self, origin: bytes, host: str, port: int | None) -> bool:
        """Tell whether a page is one of the server's own, or named."""
        text = origin.decode("latin-1")
        if text in self.origins or "*" in self.origins:
            return True
        try:
            page = urlsplit(text)
            page_port = page.port or _USUAL.get(page.scheme)
        except ValueError:
            return False
        if page.hostname is None or not (page.hostname == host or page.hostname in self.hosts):
            return False
        # A proxy before it has the usual port; what has it on the same machine is another's page.
        ports = {port} if port is not None else {*_USUAL.values()}
        return page_port in (ports if page.hostname in _LOCAL else ports | {*_USUAL.values()})


def doors(settings: ServeSettings) -> Doors:
    """Return what the settings say of who may ask.

    Raises:
        UserError: the API key cannot be read, or is too short to be one.
    """
    unspecified = _is_address(settings.host) and ipaddress.ip_address(settings.host).is_unspecified
    hosts = {name.lower() for name in settings.allow_host} | _LOCAL
    if unspecified:
        hosts.add(socket.gethostname().lower())
    else:
        hosts.add(settings.host.lower())
    return Doors(
        hosts=frozenset(hosts),
        any_address=unspecified,
        origins=frozenset(settings.cors),
        key=_read_key(settings.api_key_file),
    )


def is_open(settings: ServeSettings) -> bool:
    """Tell whether other machines can reach the server."""
    return settings.host.lower() != "localhost" and not (
        _is_address(settings.host) and ipaddress.ip_address(settings.host).is_loopback
    )


def _read_key(path: Path | None) -> bytes | None:
    if path is not None:
        try:
            key, source = path.read_text(encoding="utf-8").strip(), f"--api-key-file {path}"
        except FileNotFoundError:
            raise UserError(f"--api-key-file {path}: no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--api-key-file {path}: {error}") from None
    elif KEY_VARIABLE in os.environ:
        key, source = os.environ[KEY_VARIABLE].strip(), KEY_VARIABLE
    else:
        return None
    if len(key) < _SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise UserError(
            f"{source}: a key is {_SHORTEST_KEY} or more printable ASCII characters without spaces"
        )
    return key.encode("ascii")


def _host_of(header: bytes) -> tuple[str, int | None]:
    """Return the host of a Host header, in small letters, '' if it has none; and its port."""
    try:
        address = urlsplit(f"//{header.decode('ascii')}")
        return address.hostname or "", address.port
    except ValueError:
        return "", None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
