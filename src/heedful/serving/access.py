"""Access control: allowed host names, cross-origin pages, and the API key."""

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
_MIN_KEY = 16
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
"""Default port of each scheme."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessControl:
    """Decides which requests are allowed."""

    hosts: frozenset[str]
    """Host names of the server, in lower case."""
    any_address: bool
    """Whether any IP address is also accepted as the host. This is safe from DNS rebinding, which
    needs a host name that the attacker controls."""
    origins: frozenset[str]
    """Origins whose pages may use the server from a browser."""
    key: bytes | None
    """The API key that clients must send, if any."""

    def check(self, headers: Mapping[bytes, bytes], *, needs_key: bool) -> None:
        """Check that a request is allowed.

        Args:
            headers: headers of the request, with names in lower case.
            needs_key: whether the path requires the API key.

        Raises:
            Problem: the host or the origin is not allowed, or the API key is missing or wrong.
        """
        host, port = _host_of(headers.get(b"host", b""))
        if not self._allows_host(host):
            message = "this server does not accept that host name; add it with --allow-host"
            raise Problem("forbidden", message, status=421)
        origin = headers.get(b"origin")
        if origin is not None and not self._allows_origin(origin, host, port):
            raise Problem(
                "forbidden", "pages of that origin may not use this server; allow it with --cors"
            )
        if needs_key and self.key is not None:
            scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(key.strip(), self.key):
                raise Problem("unauthorised", "the API key is missing or wrong")

    def _allows_host(self, host: str) -> bool:
        return host in self.hosts or (self.any_address and _is_address(host))

    def _allows_origin(self, origin: bytes, host: str, port: int | None) -> bool:
        """Return whether an origin is the server's own, or one that the settings allow."""
        text = origin.decode("latin-1")
        if text in self.origins or "*" in self.origins:
            return True
        try:
            page = urlsplit(text)
            page_port = page.port or _DEFAULT_PORTS.get(page.scheme)
        except ValueError:
            return False
        if page.hostname is None or not (page.hostname == host or page.hostname in self.hosts):
            return False
        # A reverse proxy in front uses a default port. But a page at a default port of the local
        # machine may belong to another program.
        ports = {port} if port is not None else {*_DEFAULT_PORTS.values()}
        return page_port in (
            ports if page.hostname in _LOCAL else ports | {*_DEFAULT_PORTS.values()}
        )


def access_control(settings: ServeSettings) -> AccessControl:
    """Return the access control that the settings describe.

    Raises:
        UserError: the API key cannot be read, is too short, or has invalid characters.
    """
    unspecified = _is_address(settings.host) and ipaddress.ip_address(settings.host).is_unspecified
    hosts = {name.lower() for name in settings.allow_host} | _LOCAL
    hosts |= {_host_of(name.encode())[0] for name in settings.allow_host} - {""}  # without a port
    if unspecified:
        hosts.add(socket.gethostname().lower())
    else:
        hosts.add(settings.host.lower())
    return AccessControl(
        hosts=frozenset(hosts),
        any_address=unspecified,
        origins=frozenset(settings.cors),
        key=_read_key(settings.api_key_file),
    )


def is_open(settings: ServeSettings) -> bool:
    """Return whether other machines can reach the server."""
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
    if len(key) < _MIN_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise UserError(
            f"{source}: a key is {_MIN_KEY} or more printable ASCII characters without spaces"
        )
    return key.encode("ascii")


def _host_of(header: bytes) -> tuple[str, int | None]:
    """Return the lower-case host of a Host header, or '' if it has none, and the port."""
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
