"""Batches computed at the same time have the results that they have one after the other."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.copies import LATEST

import heedful
from heedful import predictor as predictor_file
from heedful.answer_options import with_options
from heedful.cancellation import cancellable, check_cancelled
from heedful.errors import UserError
from heedful.parallel_batches import compute_batches, num_at_once, shared_evenly
from heedful.predictor import Predictor

SECONDS = 60
WORDS = "a good film about the sea and a train to an old town"
TEXTS = [WORDS[: 1 + 4 * (number % 13)] for number in range(50)]


class StoppedError(Exception):
    """What the tests raise in a batch."""


@pytest.fixture
def four_threads() -> Iterator[None]:
    """Let torch use four threads, whatever the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("at_once", [2, 3, 4])
def test_results_are_in_order_and_threads_are_shared(at_once: int) -> None:
    meeting = threading.Barrier(at_once)
    num_parallel = 11 // at_once * at_once

    def compute(number: int) -> tuple[int, int, int]:
        if number < num_parallel:
            meeting.wait(SECONDS)  # so that each thread computes one of them
        return number, threading.get_ident(), torch.get_num_threads()

    results = list(compute_batches(compute, range(11), at_once))
    assert [number for number, _, _ in results] == list(range(11))
    used = {thread: num_threads for _, thread, num_threads in results[:num_parallel]}
    assert sorted(used.values()) == shared_evenly(4, at_once)
    assert {result[1:] for result in results[num_parallel:]} <= {(threading.get_ident(), 4)}
    assert torch.get_num_threads() == 4
    later: list[int] = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [4]


@pytest.mark.usefixtures("four_threads")
def test_other_threads_that_start_meanwhile_have_all_threads() -> None:
    def compute(number: int) -> int:
        ends = time.monotonic() + SECONDS
        while (count := _threads_of_a_new_thread()) != 4 and time.monotonic() < ends:
            time.sleep(0.001)
        return count

    assert list(compute_batches(compute, range(4), 2)) == [4] * 4


def _threads_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


@pytest.mark.usefixtures("four_threads")
def test_an_interruption_while_threads_start_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(barrier: threading.Barrier, timeout: float | None = None) -> int:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return wait(barrier, timeout)

    wait = threading.Barrier.wait
    monkeypatch.setattr(threading.Barrier, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(compute_batches(lambda number: number, range(4), 2))
    assert not [one for one in threading.enumerate() if one.name.startswith("batch")]


@given(st.integers(1, 200), st.integers(1, 4))
def test_all_threads_have_a_batch(threads: int, at_once: int) -> None:
    shares = shared_evenly(threads, at_once)
    assert len(shares) == at_once
    assert sum(shares) == threads
    assert max(shares) - min(shares) <= 1


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(("at_once", "batches"), [(1, 5), (4, 1), (4, 0)])
def test_one_at_a_time_is_the_thread_of_the_caller(at_once: int, batches: int) -> None:
    threads = set(compute_batches(lambda _: threading.get_ident(), range(batches), at_once))
    assert threads <= {threading.get_ident()}


@pytest.mark.usefixtures("four_threads")
def test_as_many_at_once_as_threads_up_to_a_limit() -> None:
    assert num_at_once() == 4
    torch.set_num_threads(1)
    assert num_at_once() == 1
    torch.set_num_threads(9)
    assert num_at_once() == 4


@pytest.mark.usefixtures("four_threads")
def test_several_are_computed_at_the_same_time() -> None:
    meeting = threading.Barrier(4)
    assert len(set(compute_batches(lambda _: meeting.wait(SECONDS), range(4), 4))) == 4


@pytest.mark.usefixtures("four_threads")
def test_an_error_ends_what_else_is_computed() -> None:
    computed = []

    def compute(number: int) -> None:
        computed.append(number)
        if number == 0:
            raise StoppedError
        until_cancelled()

    with pytest.raises(StoppedError):
        list(compute_batches(compute, range(8), 2))
    assert sorted(computed) in ([0], [0, 1], [0, 1, 2])  # one may begin before the error is seen
    assert torch.get_num_threads() == 4


def until_cancelled() -> None:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        check_cancelled()
        time.sleep(0.001)


@pytest.mark.usefixtures("four_threads")
def test_who_wants_no_more_results_cancels_the_rest() -> None:
    def compute(number: int) -> int:
        if number:
            until_cancelled()
        return number

    results = compute_batches(compute, range(8), 2)
    began = time.monotonic()
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < SECONDS


@pytest.mark.usefixtures("four_threads")
def test_the_check_of_the_caller_holds_in_each_batch() -> None:
    name = ContextVar("name", default="")
    name.set("the caller's")
    cancelled = threading.Event()

    def check() -> None:
        if cancelled.is_set():
            raise StoppedError

    def compute(_: int) -> None:
        assert name.get() == "the caller's"
        cancelled.set()
        until_cancelled()

    with cancellable(check), pytest.raises(StoppedError):
        list(compute_batches(compute, range(4), 2))


@pytest.fixture
def in_parallel(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Return a function that turns parallel batches on or off, in any precision."""

    def turn(on: bool) -> None:
        monkeypatch.setattr(predictor_file, "num_at_once", lambda: 2 if on else 1)
        monkeypatch.setattr(Predictor, "_gains_from_parallel_batches", lambda *_: on)

    return turn


def _asked(run: str) -> list[Any]:
    masks = {"masked": " [MASK] .", "pretrain": " [MASK] ."}
    texts = [text + masks.get(run, "") for text in TEXTS]
    return [("where is it", text) for text in texts] if run == "answer" else texts


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize(
    "run",
    [
        *("classify", "regress", "tag", "spans", "sentences", "embed", "masked", "answer"),
        *("translate", "gru", "writer"),
    ],
)
def test_answers_are_those_of_one_batch_after_the_other(
    run: str, in_parallel: Callable[[bool], None]
) -> None:
    model = heedful.load(LATEST / run, precision="fp32", batch_tokens=64)
    in_parallel(False)
    expected = [answer.to_dict() for answer in model(_asked(run))]
    threads = set[int]()
    task = model.task
    run_model = type(task).run_model

    def spy(self: Any, *args: Any) -> Any:
        threads.add(threading.get_ident())
        return run_model(self, *args)

    in_parallel(True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(task), "run_model", spy)
        answers = [answer.to_dict() for answer in model(_asked(run))]
    assert len(threads - {threading.get_ident()}) == 2
    assert _rounded(answers) == _rounded(expected)


def _rounded(value: Any) -> Any:
    """Round numbers to what does not depend on the neighbours in a batch."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-4, abs=1e-5)
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value


@pytest.mark.usefixtures("four_threads")
def test_sampled_texts_do_not_depend_on_it(in_parallel: Callable[[bool], None]) -> None:
    model = heedful.load(LATEST / "writer", precision="fp32", batch_tokens=64)
    written = []
    for on in (False, True, True):
        in_parallel(on)
        answers = model(TEXTS, sample=True, seed=3, max_new_tokens=8)
        written.append([answer.text for answer in answers])
    assert written[0] == written[1] == written[2]
    assert len(set(written[0])) > 10


@pytest.mark.usefixtures("four_threads")
@pytest.mark.bf16
def test_half_precision_computes_in_parallel_and_float32_does_not(tmp_path: Path) -> None:
    half = heedful.load(LATEST / "classify", precision="bf16", batch_tokens=64)
    if half.kernel != "packed":
        pytest.skip(half.compiled.reason)
    settings = half.settings
    plan, at_once = half.schedule([16] * 64, settings)
    assert at_once == 4
    assert {len(rows) for rows in plan} == {1}  # 64 tokens for four at a time
    assert half.schedule([16] * 7, settings)[1] == 1  # too few
    assert half.schedule([16] * 64 + [32], settings)[1] == 2  # 64 tokens at a time
    assert half.schedule([16] * 64 + [65], settings)[1] == 1
    exact = heedful.load(LATEST / "classify", precision="fp32", batch_tokens=64)
    assert exact.schedule([16] * 64, settings)[1] == 1
    hook = half.model.register_forward_hook(lambda *_: None)
    assert half.schedule([16] * 64, settings)[1] == 1
    hook.remove()
    assert half.schedule([16] * 64, settings)[1] == 4


@pytest.mark.usefixtures("four_threads")
def test_texts_are_generated_in_fewer_parts() -> None:
    model = heedful.load(LATEST / "translate", precision="fp32")
    if model.kernel != "packed":
        pytest.skip(model.compiled.reason)
    sizes = {}
    for batch_size in (16, 64, 256, 1024):
        settings = with_options(model.settings, {"batch_size": batch_size})
        plan, at_once = model.schedule([2] * 2048, settings)
        assert at_once == 4
        sizes[batch_size] = len(plan[0])
    assert sizes == {16: 16, 64: 64, 256: 64, 1024: 256}


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("run", ["translate", "classify"])
def test_int8_computes_in_parallel_except_greedy_search(run: str) -> None:
    try:
        model = heedful.load(LATEST / run, precision="int8")
    except UserError as error:
        pytest.skip(str(error))
    several, greedy = (with_options(model.settings, {"beam": beam}) for beam in (2, 1))
    assert model.schedule([128] * 512, several)[1] == 4
    assert model.schedule([128] * 512, greedy)[1] == (1 if run == "translate" else 4)


@pytest.mark.usefixtures("four_threads")
def test_few_texts_are_not_delayed_by_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    model = heedful.load(LATEST / "classify", precision="fp32")
    asked: list[Any] = []
    monkeypatch.setattr(Predictor, "_gains_from_parallel_batches", lambda *_: asked.append(1))
    model(TEXTS[:7])
    assert not asked
    model(TEXTS[:8])
    assert asked
