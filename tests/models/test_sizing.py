"""How many tokens a batch of predictions has."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from heedful import BertConfig, BertModel
from heedful.models.sizing import max_batch_tokens


@pytest.mark.parametrize(
    ("gibibytes", "tokens"), [(4, 8192), (24, 8192), (39.5, 16384), (79.1, 32768), (139.8, 65536)]
)
def test_a_gpu_takes_as_many_as_its_memory_has_room_for(
    gibibytes: float, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Weight:
        device = torch.device("cuda")

    class Model:
        def parameters(self) -> Iterator[Weight]:
            yield Weight()

    def properties(device: torch.device) -> SimpleNamespace:
        return SimpleNamespace(total_memory=int(gibibytes * 2**30))

    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    assert max_batch_tokens(Model()) == tokens  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("inner", "dtype", "tokens"),
    [
        (64, torch.float32, 4096),
        (2048, torch.float32, 4096),
        (2064, torch.float32, 2048),
        (3072, torch.float32, 2048),
        (3072, torch.bfloat16, 4096),
        (4096, torch.float64, 1024),
    ],
)
def test_the_widest_product_stays_below_what_glibc_hands_back(
    inner: int, dtype: torch.dtype, tokens: int
) -> None:
    config = BertConfig(
        vocab_size=10,
        hidden_size=8,
        num_attention_heads=1,
        num_hidden_layers=1,
        intermediate_size=inner,
    )
    assert max_batch_tokens(BertModel(config).to(dtype)) == tokens
    assert tokens * inner * dtype.itemsize <= 32 * 2**20
