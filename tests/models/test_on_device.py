"""Models generate the same on a device as with bookkeeping on the host.

The device is the CPU, and what is written is float64.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests import recorded, tiny_folders
from tests.alike import assert_same_texts
from torch import Tensor, nn

from heedful.decoding import on_device
from heedful.decoding.on_device import beam_search_on_device
from heedful.decoding.options import StaticDecoder, StepInput
from heedful.decoding.search import Search
from heedful.models import BertConfig, BertEncoderDecoder, BertLMHeadModel, BertModel, generation
from heedful.models.loading import FAMILIES
from heedful.models.on_device import DecoderSteps, supports_device_search
from heedful.models.transformer import searching
from heedful.models.transformer.config import TransformerConfig
from heedful.models.transformer.model import Transformer
from heedful.models.transformer.searching import TransformerSteps

OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"num_beams": 4, "num_return_sequences": 3, "length_penalty": 0.6},
    "coverage": {"num_beams": 3, "coverage_penalty": 0.5},
    "penalties": {
        "num_beams": 3,
        "repetition_penalty": 1.4,
        "no_repeat_ngram": 2,
        "min_new_tokens": 5,
        "never": (7, 8),
    },
}


@contextmanager
def staying(monkeypatch: pytest.MonkeyPatch, *, record: bool) -> Iterator[list[recorded.Graph]]:
    """Search as on a device, optionally with recorded steps, and yield the records."""
    with monkeypatch.context() as patch:
        patch.setattr(on_device, "_CHECK_EVERY", 2)  # so that some are done before the others
        for module in (searching, generation):
            patch.setattr(module, "stays_on_device", lambda device, options: not options.do_sample)
        made: list[recorded.Graph] = []
        if record:
            patch.setattr(recorded.Graph, "made", made)
            patch.setattr(torch.cuda, "CUDAGraph", recorded.Graph)
            patch.setattr(torch.cuda, "graph", recorded.graph)
            patch.setattr(on_device, "supports_graphs", lambda device: True)
        yield made


def translator(**options: Any) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=40,
        d_model=16,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        **options,
    )
    return Transformer(config).double().eval()


def texts_to_read() -> tuple[Tensor, Tensor]:
    ids = torch.randint(4, 40, (7, 9), generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([9, 3, 5, 9, 1, 7, 2])
    return ids, (torch.arange(9) < lengths[:, None]).long()


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("norm_before", [False, True])
def test_a_translator(
    name: str, record: bool, norm_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = translator(normalize_before=norm_before)
    ids, mask = texts_to_read()
    wanted = Search(eos_token_id=3, max_new_tokens=50, **OPTIONS[name])
    prefixes = [[5, 6], [], [9], [], [], [4], []]
    with staying(monkeypatch, record=record) as graphs:
        texts = model.generate(ids, mask, search=wanted, prefixes=prefixes)
    assert_same_texts(texts, model.generate(ids, mask, search=wanted, prefixes=prefixes))
    assert bool(graphs) == record
    assert sum(graph.replays for graph in graphs) >= 2 * len(graphs)


WRITERS = [name for name, family in FAMILIES.items() if "causal_lm" in family.models]


def decoder(family: str, **options: Any) -> Any:
    """Return a tiny decoder whose texts do not just repeat one word."""
    torch.manual_seed(0)
    names = tiny_folders.OTHER_KEYS.get(family, {})
    sizes = tiny_folders.SIZES | tiny_folders.OPTIONS.get(family, {})
    sizes |= {"max_position_embeddings": 80, "is_decoder": True}
    if family == "gpt2":
        del sizes["is_decoder"]  # what else could it be
    values = {names.get(name, name): value for name, value in sizes.items()}
    config = FAMILIES[family].config_class()(**values | {"vocab_size": 40} | options)
    model = FAMILIES[family].model_class("causal_lm").from_config(config).double().eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.5)
    return model


def ending(model: Any, ids: Tensor, mask: Tensor) -> int:
    """Return the token that would end texts at the greatest number of different lengths."""
    free = model.generate(ids, mask, search=Search(eos_token_id=-1, max_new_tokens=30))
    texts = [text.tokens for (text,) in free]
    lengths = {
        token: len({text.index(token) for text in texts if token in text})
        for token in {token for text in texts for token in text}
    }
    return max(lengths, key=lambda token: (lengths[token], token))


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("name", ["greedy", "beam", "penalties"])
@pytest.mark.parametrize("family", WRITERS)
def test_a_decoder_goes_on_with_prompts_of_any_lengths(
    family: str, name: str, record: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = decoder(family)
    ids, mask = texts_to_read()
    end = ending(model, ids, mask)
    wanted = Search(eos_token_id=end, max_new_tokens=50, **OPTIONS[name] | {"never": ()})
    with staying(monkeypatch, record=record) as graphs:
        texts = model.generate(ids, mask, search=wanted)
    assert_same_texts(texts, model.generate(ids, mask, search=wanted))
    if name == "greedy":
        assert len({len(text.tokens) for (text,) in texts}) > 2
    assert bool(graphs) == (record and supports_device_search(model))


def test_who_has_no_steps_of_its_own_writes_as_elsewhere() -> None:
    assert {family for family in WRITERS if not supports_device_search(decoder(family))} == set()
    assert not supports_device_search(decoder("bert", position_embedding_type="relative_key"))


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ["beam", "penalties"])
def test_a_decoder_that_attends_to_an_encoder(
    name: str, padded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32}
    config = BertConfig(**sizes, num_attention_heads=4)
    torch.manual_seed(0)
    writes = BertLMHeadModel(replace(config, is_decoder=True, add_cross_attention=True))
    model = BertEncoderDecoder(BertModel(config), writes, decoder_start_token_id=2)
    model = model.double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    ids, mask = texts_to_read()
    wanted = Search(eos_token_id=3, max_new_tokens=50, **OPTIONS[name])
    more = (mask,) if padded else ()
    with staying(monkeypatch, record=True) as graphs:
        texts = model.generate(ids, *more, search=wanted)
    assert_same_texts(texts, model.generate(ids, *more, search=wanted))
    assert graphs


def test_a_step_that_cannot_be_recorded_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = translator()
    ids, mask = texts_to_read()
    wanted = Search(eos_token_id=3, max_new_tokens=50, **OPTIONS["beam"])

    @contextmanager
    def refused(*_: Any, **__: Any) -> Iterator[None]:
        raise RuntimeError("operation not permitted\nand more")
        yield

    with staying(monkeypatch, record=True):
        monkeypatch.setattr(torch.cuda, "graph", refused)
        message = "^searching without CUDA graphs, more slowly: operation not permitted$"
        with pytest.warns(UserWarning, match=message):
            texts = model.generate(ids, mask, search=wanted)
    assert_same_texts(texts, model.generate(ids, mask, search=wanted))


META = torch.device("meta")


def test_nothing_is_read_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's ``meta`` device has shapes but no numbers: reading one fails."""
    monkeypatch.setattr(on_device, "_CHECK_EVERY", 11)
    # It is there to switch autocast off, which is off here and does not know the device.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    forced = np.full((7, 1), -1)
    ids, mask = (tensor.to(META) for tensor in texts_to_read())
    lengths = torch.zeros(7, dtype=torch.int64, device=META)
    wanted = Search(eos_token_id=3, max_new_tokens=40, **OPTIONS["penalties"])
    covering = Search(eos_token_id=3, max_new_tokens=40, **OPTIONS["coverage"])
    translates, writes = translator().to(META), decoder("gpt2").to(META)
    read = mask[:, None, None].bool()
    for steps, options in (
        (TransformerSteps(translates, translates.encode(ids, mask), read, cover=True), covering),
        (TransformerSteps(translates, translates.encode(ids, mask), read, cover=False), wanted),
        (DecoderSteps(writes, ids, lengths, None), wanted),
    ):
        taken = Counted(steps)
        with pytest.raises(RuntimeError, match="meta tensors"), torch.inference_mode():
            beam_search_on_device(taken, ids[:, 0], options, forced)
        assert taken.count == 11


class Counted:
    """Counts steps."""

    def __init__(self, steps: StaticDecoder) -> None:
        self.steps, self.count = steps, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.steps, name)

    def step(self, newest: StepInput) -> tuple[Tensor, Tensor | None]:
        self.count += 1
        return self.steps.step(newest)


@pytest.mark.cuda
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("kind", ["translator", "decoder"])
def test_a_gpu_plays_what_it_recorded(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = translator() if kind == "translator" else decoder("gpt2")
    options = OPTIONS[name] if kind == "translator" else {**OPTIONS[name], "coverage_penalty": 0}
    ids, mask = texts_to_read()
    wanted = Search(eos_token_id=3, max_new_tokens=50, **options)
    right = model.generate(ids, mask, search=wanted)
    played: list[None] = []
    play = torch.cuda.CUDAGraph.replay

    def replay(graph: torch.cuda.CUDAGraph) -> None:
        played.append(None)
        play(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", replay)
    texts = model.cuda().generate(ids.cuda(), mask.cuda(), search=wanted)
    assert_same_texts(texts, right)
    assert len(played) > 6
