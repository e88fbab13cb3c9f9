"""The cost model of a job adds up as its page says."""

import pytest
from benchmarks.scale import Job, estimate

from heedful.models import BertConfig, BertForMaskedLM


def test_the_size_of_a_bert_is_nearly_that_of_the_model() -> None:
    job = Job(layers=2, hidden=64, vocabulary=1000, length=128)
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=1000,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=256,
            max_position_embeddings=128,
        )
    )
    numbers = sum(parameter.numel() for parameter in model.parameters())
    assert job.parameters == pytest.approx(numbers, rel=0.05)


def test_more_gpus_compute_less_each() -> None:
    job = Job()
    eight, sixteen = estimate(job, 8), estimate(job, 16)
    assert sixteen.computing == pytest.approx(eight.computing / 2)
    assert sixteen.reading == pytest.approx(eight.reading / 2)
    # From 8 to 16 the exchange leaves the machine, and takes longer.
    assert sixteen.exchange / eight.exchange == pytest.approx(
        (15 / 16) / (7 / 8) * job.inside / job.between
    )


def test_the_slower_of_computing_and_reading_counts() -> None:
    fast, slow = Job(), Job(read=1000)
    assert estimate(fast, 8).reading < estimate(fast, 8).computing
    late = estimate(slow, 8)
    steps = slow.tokens / slow.batch_tokens
    seconds = late.reading + late.exposed + late.checkpoint
    assert late.hours == pytest.approx(steps * seconds / 3600)
    assert late.price == pytest.approx(late.hours * 8 * slow.price)


def test_what_computing_cannot_hide_is_exposed() -> None:
    assert estimate(Job(between=1e6), 64).exposed > 0.9 * estimate(Job(between=1e6), 64).exchange
    hidden = estimate(Job(), 8)
    assert hidden.exposed == pytest.approx(0.1 * hidden.exchange)
