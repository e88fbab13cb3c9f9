"""The guard against the network works, and a test that fails fails again."""

import socket
import threading

import pytest
import torch


@pytest.mark.parametrize(
    ("family", "address"),
    [(socket.AF_INET, ("192.0.2.1", 9)), (socket.AF_INET6, ("2001:db8::1", 9))],
)
def test_connecting_elsewhere_is_refused(
    family: socket.AddressFamily, address: tuple[str, int]
) -> None:
    with socket.socket(family) as client, pytest.raises(BaseException, match="only loopback"):
        client.connect(address)


def test_datagrams_elsewhere_are_refused() -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as client,
        pytest.raises(BaseException, match="only loopback"),
    ):
        client.sendto(b"", ("192.0.2.1", 9))


def test_looking_up_a_name_is_refused() -> None:
    with pytest.raises(BaseException, match="only loopback"):
        socket.getaddrinfo("example.org", 80)


def test_a_library_cannot_swallow_the_refusal() -> None:
    with pytest.raises(BaseException, match="only loopback") as refused:
        socket.create_connection(("example.org", 80))
    assert not isinstance(refused.value, Exception)


def test_loopback_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        answering = threading.Thread(target=lambda: server.accept()[0].close())
        answering.start()
        with socket.create_connection(("localhost", server.getsockname()[1])) as client:
            assert client.recv(1) == b""
        answering.join()


@pytest.mark.parametrize("expected", [0.267809, 0.163839], ids=["first", "second"])
def test_each_test_draws_its_own_numbers_in_every_run(expected: float) -> None:
    assert torch.rand(()).item() == pytest.approx(expected, abs=1e-6)
