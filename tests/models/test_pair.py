"""A generator and a discriminator in one model: shared weights, sampling, and their folders."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import tiny
from tests.exact import assert_same_bits

from heedful.compiled.int8 import is_supported
from heedful.compiled.int8_layers import calibration_rows
from heedful.compiled.model import compile_model
from heedful.errors import UserError
from heedful.files import read_tensors
from heedful.models import (
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    ElectraModel,
    load_model,
)
from heedful.models.electra.presets import GENERATOR_SIZES, PRESETS
from heedful.models.pair import TABLES, GeneratorDiscriminatorPair, sample

IDS = torch.tensor([[2, 4, 8, 9, 3], [2, 10, 4, 3, 0]])
MASKS = {"positions": torch.tensor([1, 7]), "uniforms": torch.tensor([0.25, 0.75])}


def pair_of(**changes: Any) -> GeneratorDiscriminatorPair:
    torch.manual_seed(0)
    values = {**tiny.SIZES, **tiny.STILL, "embedding_size": 16, "initializer_range": 0.2}
    config = ElectraConfig(**values | changes)
    return GeneratorDiscriminatorPair(
        ElectraForPreTraining(config), ElectraForMaskedLM(config.generator(0.5))
    )


@pytest.mark.parametrize(
    ("name", "parameters", "generator"),
    [
        # In millions, those of the published files; the generators' widths from Clark et al. 2020.
        ("small", 13.48, 64),
        ("base", 108.9, 256),
        ("large", 334.1, 256),
    ],
)
def test_sizes_are_those_published(name: str, parameters: float, generator: int) -> None:
    config = ElectraConfig(**PRESETS[name])
    with torch.device("meta"):
        model = ElectraModel(config)
    assert model.num_parameters() / 1e6 == pytest.approx(parameters, rel=1e-3)
    smaller = config.generator(GENERATOR_SIZES[name])
    assert (smaller.hidden_size, smaller.embedding_size) == (generator, config.embedding_size)
    assert smaller.hidden_size == 64 * smaller.num_attention_heads
    assert smaller.intermediate_size == 4 * generator
    assert smaller.num_hidden_layers == config.num_hidden_layers


def test_tables_are_shared_where_they_are_as_wide() -> None:
    pair = pair_of()
    for name in TABLES:
        embeddings = (part.electra.embeddings for part in (pair.discriminator, pair.generator))
        ours, theirs = (getattr(part, name) for part in embeddings)
        assert ours is theirs
    other = ElectraForMaskedLM(pair.config.generator(0.5))
    narrow = ElectraConfig(**{**tiny.SIZES, "embedding_size": 8})
    assert GeneratorDiscriminatorPair(ElectraForPreTraining(narrow), other).tied == []


def test_what_is_shared_is_kept_once() -> None:
    pair, fresh = pair_of(), pair_of(initializer_range=0.1)
    state = pair.state_dict()
    assert set(state) == {name for name, _ in pair.named_parameters()}
    fresh.load_state_dict(state)
    assert_same_bits(fresh.state_dict(), state, "stored")
    del state["discriminator.electra.embeddings.word_embeddings.weight"]
    with pytest.raises(RuntimeError, match="word_embeddings"):
        fresh.load_state_dict(state)
    twin = copy.deepcopy(pair)
    assert twin.generator.get_input_embeddings() is twin.get_input_embeddings()
    assert twin.get_input_embeddings() is not pair.get_input_embeddings()


def test_a_number_draws_the_token_at_which_the_sum_passes_it() -> None:
    logits = torch.tensor([0.1, 0.0, 0.6, 0.3]).log().expand(1000, 4)
    uniforms = (torch.arange(1000) + 0.5) / 1000
    drawn = sample(logits, uniforms)
    assert drawn.bincount().tolist() == [100, 0, 600, 300]
    assert drawn.tolist() == sorted(drawn.tolist())
    assert sample(logits[:2], torch.tensor([0.0, 1 - 2**-24])).tolist() == [0, 3]


def test_what_was_drawn_is_what_the_discriminator_sees() -> None:
    pair = pair_of().eval()
    output = pair(IDS, IDS.ne(0), **MASKS)
    corrupted = IDS.clone()
    corrupted.view(-1)[MASKS["positions"]] = output.samples
    alone = pair(corrupted, IDS.ne(0))
    torch.testing.assert_close(output.logits, alone.logits)
    filled = pair.generator(IDS, IDS.ne(0), positions=MASKS["positions"]).logits
    torch.testing.assert_close(output.prediction_logits, filled)
    assert output.samples.tolist() == sample(filled, MASKS["uniforms"]).tolist()


def test_no_gradient_goes_from_the_discriminator_to_the_generator() -> None:
    pair = pair_of()
    pair(IDS, **MASKS).logits.sum().backward()
    shared = {id(parameter) for parameter in pair.discriminator.parameters()}
    alone = [x for x in pair.generator.parameters() if id(x) not in shared]
    assert alone
    assert all(parameter.grad is None for parameter in alone)


def test_its_folders_are_those_of_two_models(tmp_path: Path) -> None:
    pair = pair_of().eval()
    pair.save_pretrained(tmp_path)
    assert type(load_model(tmp_path)) is ElectraForPreTraining
    assert type(load_model(tmp_path / "generator")) is ElectraForMaskedLM
    names = read_tensors(tmp_path / "generator" / "model.safetensors")
    assert "electra.embeddings.word_embeddings.weight" in names
    again = GeneratorDiscriminatorPair(load_model(tmp_path), load_model(tmp_path / "generator"))
    assert_same_bits(again.state_dict(), pair.state_dict(), "stored")
    with pytest.raises(UserError, match="a pair is read from two folders"):
        pair.set_file_weights(names, tmp_path)


def test_its_compiled_form_answers_as_the_discriminator() -> None:
    pair = pair_of().eval()
    compiled = compile_model(pair)
    assert isinstance(compiled.model, GeneratorDiscriminatorPair)
    with torch.inference_mode():
        for inputs in ({}, MASKS):
            output = compiled.model(IDS, IDS.ne(0), **inputs)
            right = pair(IDS, IDS.ne(0), **inputs).logits
            torch.testing.assert_close(output.logits[IDS.ne(0)], right[IDS.ne(0)])
    if compiled.kernel != "plain":
        assert compiled.model.body.encoder is not pair.body.encoder


def test_it_answers_in_int8() -> None:
    able, reason = is_supported(torch.device("cpu"))
    if not able:
        pytest.skip(reason)
    pair = pair_of().eval()
    rows = calibration_rows([2], [3], vocab_size=50, positions=pair.max_positions)
    compiled = compile_model(pair, lambda: rows)
    assert compiled.kernel == "int8"
    with torch.inference_mode():
        found, right = (model(IDS, IDS.ne(0)).logits for model in (compiled.model, pair))
    torch.testing.assert_close(found[IDS.ne(0)], right[IDS.ne(0)], rtol=0.1, atol=0.1)


def test_both_parts_recompute() -> None:
    pair = pair_of()
    pair.gradient_checkpointing = True
    assert pair.gradient_checkpointing
    assert pair.generator.body.gradient_checkpointing
    assert pair.discriminator.body.gradient_checkpointing
