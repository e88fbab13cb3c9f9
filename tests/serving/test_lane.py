"""Answers equal those of predict under any load; no request harms another."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.alike import same
from tests.serving.inside import RUNS, TEXTS, client_of, loaded, records, rows, service_of

from heedful.cancellation import check_cancelled
from heedful.predictor import Predictor
from heedful.serving.lane import Throughput
from heedful.serving.problem import Problem
from heedful.serving.service import Service
from heedful.settings import PredictSettings, ServeSettings
from heedful.tasks.translate import Translate
from heedful.training.device import bf16_products, choose_device

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def asked(service: Service, name: str, texts: list[Any], **options: Any) -> list[Any]:
    """Ask a run of a service as protocols do."""
    served = service.find(name, lambda served: True, "a run")
    return await service.answer(
        served, records(served.predictor, texts), served.settings(**options)
    )


async def test_every_task_answers_as_predict_alone_and_with_others() -> None:
    expected = {}
    for name, texts in TEXTS.items():
        predictor = loaded(name).predictor
        expected[name] = [rows([*predictor.answers(records(predictor, [one]))])[0] for one in texts]
    draw = random.Random(0)
    async with service_of(*TEXTS, batch_tokens=64) as service:
        for name, texts in TEXTS.items():
            assert same(rows(await asked(service, name, texts)), expected[name]), name
        requests = [
            (name, draw.choices(range(len(TEXTS[name])), k=draw.randint(1, 9)))
            for name in draw.choices(list(TEXTS), k=90)
        ]
        answers = await asyncio.gather(
            *(asked(service, name, [TEXTS[name][n] for n in chosen]) for name, chosen in requests)
        )
    for (name, chosen), given in zip(requests, answers, strict=True):
        assert same(rows(given), [expected[name][n] for n in chosen]), name


@pytest.mark.bf16
async def test_scores_in_bf16_agree_to_a_hundredth() -> None:
    native, why = bf16_products(choose_device("cpu"))
    if not native:
        pytest.skip(why)
    predictor = Predictor.load(RUNS / "classify", PredictSettings(precision="bf16"))
    texts = TEXTS["classify"]
    expected = [rows([*predictor.predict([text])])[0] for text in texts]
    async with service_of("classify") as service:
        service.runs["classify"].predictor = predictor
        together = await asyncio.gather(*(asked(service, "classify", texts) for _ in range(4)))
    assert all(same(rows(answers), expected, tolerance=1e-2) for answers in together)


async def test_options_of_one_request_are_not_those_of_another() -> None:
    texts = TEXTS["translate"]
    predictor = loaded("translate").predictor
    options: list[dict[str, Any]] = [{"beam": 1}, {"beam": 4, "top": 3}, {"max_new_tokens": 2}]
    expected = [rows([*predictor.predict(texts, **one)]) for one in options]
    async with service_of("translate") as service:
        answers = await asyncio.gather(
            *(asked(service, "translate", texts, **one) for one in options * 3)
        )
    for given, right in zip(answers, expected * 3, strict=True):
        assert same(rows(given), right)


async def test_a_request_that_cannot_be_answered_hurts_nobody() -> None:
    async with service_of("classify") as service:
        good = [asked(service, "classify", ["the red cat sleeps"]) for _ in range(5)]
        bad = [
            asked(service, "classify", ["a " * 999], long_text="refuse"),
            asked(service, "classify", [("a", "pair")]),
            asked(service, "classify", ["a"], beam=2),
        ]
        *answers, long, pair, beam = await asyncio.gather(*good, *bad, return_exceptions=True)
    assert [one[0].label for one in answers if isinstance(one, list)] == ["animal"] * 5
    for problem in (long, pair, beam):
        assert isinstance(problem, Problem)
        assert problem.status == 422
        assert "--" not in problem.message


async def test_who_breaks_a_batch_breaks_it_for_itself_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = loaded("classify").predictor.task
    decode = type(task).decode

    def broken(self: Any, record: Any, *others: Any) -> Any:
        if record.text == "break":
            raise RuntimeError("broken")
        return decode(self, record, *others)

    monkeypatch.setattr(type(task), "decode", broken)
    async with service_of("classify", batch_wait=50) as service:
        first, second, third = await asyncio.gather(
            asked(service, "classify", ["the red cat sleeps"]),
            asked(service, "classify", ["break", "the red cat sleeps"]),
            asked(service, "classify", ["the bread tastes"]),
            return_exceptions=True,
        )
        assert isinstance(second, RuntimeError)
        assert isinstance(first, list)
        assert isinstance(third, list)
        assert (first[0].label, third[0].label) == ("animal", "food")
        assert (await asked(service, "classify", ["the red cat sleeps"]))[0].label == "animal"


async def test_who_leaves_is_not_computed() -> None:
    async with service_of("classify", started=False) as service:
        lane = service.runs["classify"].lane
        asking = asyncio.create_task(asked(service, "classify", ["a", "b", "c"]))
        while not lane.queue.items:
            await asyncio.sleep(0.001)
        assert lane.queue.items == 3
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert lane.queue.items == 0


@contextmanager
def computing_for_long(name: str) -> Iterator[threading.Event]:
    """Let a run compute its batches for a minute each; give what is set when it has begun."""
    begun, task = threading.Event(), loaded(name).predictor.task
    ends = time.monotonic() + 60

    def compute(*inputs: Any) -> Any:
        begun.set()
        while time.monotonic() < ends:
            check_cancelled()
            time.sleep(0.001)
        raise AssertionError("it was not cancelled")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(task), "run_model", compute)
        yield begun


async def test_who_leaves_is_computed_no_further() -> None:
    async with service_of("classify") as service:
        with computing_for_long("classify") as begun:
            asking = asyncio.create_task(asked(service, "classify", ["a", "b", "c"]))
            await asyncio.to_thread(begun.wait)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        async with asyncio.timeout(30):
            answers = await asked(service, "classify", ["the red cat sleeps"])
        assert answers[0].label == "animal"


async def test_a_service_that_stops_computes_no_further() -> None:
    async with service_of("classify") as service:
        with computing_for_long("classify") as begun:
            asking = asyncio.create_task(asked(service, "classify", ["a"]))
            await asyncio.to_thread(begun.wait)
            await service.close()
            async with asyncio.timeout(30):
                await asyncio.to_thread(service.runs["classify"].lane._thread.shutdown)
        assert not asking.done()
        asking.cancel()


async def test_a_batch_is_small_where_long_texts_are_generated() -> None:
    async with service_of("translate", "classify", batch_tokens=64) as service:
        warm = batches(service, "translate")
        for options, expected in (
            ({"beam": 16, "max_new_tokens": 64}, 3),  # 2 texts of 1,024 tokens each
            ({"sample": True, "top": 16, "max_new_tokens": 64}, 3),
            ({"beam": 4, "max_new_tokens": 8}, 1),
        ):
            assert len(await asked(service, "translate", ["Das"] * 6, **options)) == 6
            assert batches(service, "translate") - warm == expected
            warm += expected
        warm = batches(service, "classify")
        await asked(service, "classify", ["a"] * 16)
        assert batches(service, "classify") - warm == 1


def batches(service: Service, run: str) -> int:
    """Return the number of batches that a run has computed."""
    (line,) = (
        line
        for line in service.metrics.text().decode().splitlines()
        if line.startswith(f'heedful_batch_items_count{{run="{run}"}}')
    )
    return int(float(line.rpartition(" ")[2]))


async def test_a_short_request_overtakes_a_long_one() -> None:
    async with service_of("classify", batch_tokens=32) as service:
        long = asyncio.create_task(asked(service, "classify", ["the red cat sleeps"] * 600))
        while not service.runs["classify"].lane.queue.items:
            await asyncio.sleep(0)
        assert len(await asked(service, "classify", ["the bread tastes"])) == 1
        assert not long.done()
        assert len(await long) == 600


async def test_a_short_request_is_let_in_while_a_long_one_is_encoded() -> None:
    async with service_of("classify", batch_tokens=32, queue_seconds=10) as service:
        lane = service.runs["classify"].lane
        await asked(service, "classify", ["the red cat sleeps"])
        lane.speed = Throughput(tokens_per_character=lane.speed.tokens_per_character)
        lane.speed.update(32, 3.2)
        long = asyncio.create_task(asked(service, "classify", ["the red cat sleeps"] * 600))
        await asyncio.sleep(0)
        assert not lane.queue.items
        assert lane.wait_seconds() == pytest.approx(3.2)
        assert len(await asked(service, "classify", ["the bread tastes"])) == 1
        assert len(await long) == 600


async def test_a_long_text_says_nothing_of_how_long_the_next_ones_are() -> None:
    async with service_of("classify", batch_tokens=64, queue_seconds=10) as service:
        lane = service.runs["classify"].lane
        for _ in range(3):
            await asked(service, "classify", ["the red cat sleeps " * 500])
        lane.speed.update(64, 9)
        lane.queue.tokens_ahead += 32
        coming = [asked(service, "classify", ["the red cat sleeps"]) for _ in range(5)]
        assert len(await asyncio.gather(*coming)) == 5
        lane.queue.tokens_ahead -= 32


async def test_a_busy_run_lets_another_have_its_turn() -> None:
    async with service_of("classify", "tag", batch_tokens=32, threads=1) as service:
        long = asyncio.create_task(asked(service, "classify", ["the red cat sleeps"] * 600))
        while not service.runs["classify"].lane.queue.items:
            await asyncio.sleep(0)
        assert len(await asked(service, "tag", ["Ann is in Paris"])) == 1
        assert not long.done()
        await long


async def test_too_many_texts_tokens_and_hypotheses_are_refused() -> None:
    async with service_of("classify", "translate", max_items=3, max_tokens=50) as service:
        for name, texts, options, said in (
            ("classify", ["a"] * 4, {}, "4 texts; a request may have 3"),
            ("classify", ["a " * 60], {}, "the texts have over 50 tokens"),
            ("translate", ["a"], {"beam": 17}, "17 texts for each; at most 16"),
            ("translate", ["a"], {"sample": True, "top": 40}, "40 texts for each"),
        ):
            with pytest.raises(Problem, match=said) as caught:
                await asked(service, name, texts, **options)
            assert caught.value.status == 413
        assert len(await asked(service, "classify", ["a"] * 3)) == 3
        assert await asked(service, "classify", []) == []


async def test_a_full_queue_refuses_at_once() -> None:
    async with service_of("classify", started=False, queue_tokens=30) as service:
        lane = service.runs["classify"].lane
        asking = [
            asyncio.create_task(asked(service, "classify", ["the red cat sleeps"] * 4))
            for _ in range(2)
        ]
        with pytest.raises(Problem, match="the queue is full") as caught:
            await asyncio.gather(*asking)
        assert caught.value.status == 429
        assert caught.value.retry_after is not None
        assert caught.value.retry_after >= 1
        assert lane.queue.items == 4
        for one in asking:
            one.cancel()


async def test_who_would_wait_too_long_is_refused_before_its_texts_are_read() -> None:
    async with service_of("classify", batch_tokens=9, queue_seconds=10) as service:
        lane = service.runs["classify"].lane
        await asked(service, "classify", ["a"])
        lane.speed = Throughput()
        lane.speed.update(9, 18)
        lane.queue.tokens_ahead += 9  # 18 s, but no more than a batch
        assert len(await asked(service, "classify", ["a"])) == 1
        lane.speed = Throughput()
        lane.speed.update(9, 18)
        lane.queue.tokens_ahead += 1
        with pytest.raises(Problem, match="try again in 20 s") as caught:
            await asked(service, "classify", [("a", "pair")])
        assert (caught.value.status, caught.value.retry_after) == (429, 20)
        lane.queue.tokens_ahead -= 10
        assert len(await asked(service, "classify", ["a"])) == 1


async def test_the_speed_of_full_batches_counts_for_more() -> None:
    speed = Throughput()
    assert speed.tokens_per_second == 0
    for _ in range(50):
        speed.update(10, 0.01)
    assert speed.tokens_per_second == pytest.approx(1000)
    speed.update(2000, 0.1)
    assert speed.tokens_per_second > 13_000


def test_what_a_batch_takes_is_told_by_those_of_its_size() -> None:
    speed = Throughput()
    assert speed.expected(1000) == 0
    for _ in range(50):
        speed.update(3, 0.006)
    assert speed.expected(4) == pytest.approx(0.008)
    assert speed.expected(1000) == pytest.approx(2)  # too long, but nothing larger is known
    assert not speed.has_measured(1000)
    speed.update(1000, 0.1)
    assert speed.has_measured(1000)
    for _ in range(200):
        speed.update(3, 0.006)
    assert speed.expected(900) == pytest.approx(0.09)
    assert speed.expected(100) == pytest.approx(0.2)
    speed.update(1000, 0.2)
    assert speed.expected(1000) == pytest.approx(0.12)


async def test_a_burst_after_short_texts_is_let_in() -> None:
    async with service_of("classify", batch_tokens=64, queue_seconds=1) as service:
        lane = service.runs["classify"].lane
        for _ in range(20):
            lane.speed.update(3, 0.5)  # by which 100 tokens take 17 s
        texts = ["the red cat sleeps and the white bird stands"] * 3
        lane.queue.tokens_ahead += 100
        assert len(await asked(service, "classify", texts)) == 3
        lane.queue.tokens_ahead -= 100
        burst = [asyncio.create_task(asked(service, "classify", texts)) for _ in range(8)]
        assert [len(each) for each in await asyncio.gather(*burst)] == [3] * 8
        assert lane.speed.has_measured(32)


async def test_a_service_finds_runs() -> None:
    service = Service([loaded("classify"), loaded("tag"), loaded("classify")], ServeSettings())
    assert list(service.runs) == ["classify", "tag", "classify-2"]
    assert service.find(None, lambda served: served.task.name == "tag", "tags").name == "tag"
    assert service.find("classify-2", lambda served: True, "a run").name == "classify-2"
    with pytest.raises(Problem, match="no run of that name; there are: classify, tag, ") as caught:
        service.find("../tag", lambda served: True, "a run")
    assert caught.value.status == 404
    with pytest.raises(Problem, match="tag is a tag run; this needs vectors"):
        service.find("tag", lambda served: False, "vectors")
    with pytest.raises(Problem, match="this needs vectors, and there is none"):
        service.find(None, lambda served: False, "vectors")
    with pytest.raises(Problem, match="classify is not ready yet") as caught:
        await asked(service, "classify", ["a"])
    assert (caught.value.status, caught.value.retry_after) == (503, 1)


async def test_only_samples_that_are_shown_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    run_model = Translate.run_model

    def counted(self: Any, model: Any, batch: Any, settings: Any) -> Any:
        drawn.append(settings.top)
        return run_model(self, model, batch, settings)

    monkeypatch.setattr(Translate, "run_model", counted)
    body = {"texts": ["das haus"], "options": {"sample": True, "seed": 1}}
    v2 = {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["das haus"]}]}
    v2["parameters"] = {"sample": True, "seed": 1}  # type: ignore[assignment]
    hub = {"inputs": "das haus", "parameters": {"generate_parameters": {"do_sample": True}}}
    async with service_of("translate") as service, client_of(service) as client:
        drawn.clear()  # by the warm-up
        one = await client.post("/api/runs/translate/predict", json=body)
        every = await client.post("/api/runs/translate/predict", json={**body, "all_scores": True})
        assert (await client.post("/v2/models/translate/infer", json=v2)).status_code == 200
        assert (await client.post("/pipeline/translation", json=hub)).status_code == 200
        refused = await client.post(
            "/api/runs/translate/predict", json={"texts": ["das haus"], "options": {"top": 2}}
        )
    assert drawn == [1, 5, 1, 1]
    assert one.json()["answers"][0]["text"] == every.json()["answers"][0]["text"]
    assert refused.status_code == 422
    said = "top is for the texts of all_scores: give that option too"
    assert refused.json()["error"]["message"] == said
