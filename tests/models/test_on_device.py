"""Models write on a device what they write with the host's bookkeeping.

The device is the CPU, and what is written is float64.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tests import recorded
from tests.alike import assert_same_texts
from torch import Tensor

from heedful.decoding import on_device
from heedful.decoding.search import Search
from heedful.models.transformer import searching
from heedful.models.transformer.config import TransformerConfig
from heedful.models.transformer.model import Transformer

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
    """Search as on a device, perhaps with recorded steps, and yield the records."""
    with monkeypatch.context() as patch:
        patch.setattr(searching, "stays_on_device", lambda device, options: not options.do_sample)
        made: list[recorded.Graph] = []
        if record:
            patch.setattr(recorded.Graph, "made", made)
            patch.setattr(torch.cuda, "CUDAGraph", recorded.Graph)
            patch.setattr(torch.cuda, "graph", recorded.graph)
            patch.setattr(on_device, "records", lambda device: True)
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
