import pytest
import torch

from heedful.models import FAMILIES, BertConfig, BertModel, RobertaConfig
from heedful.models.bert.presets import PRESETS


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # In millions, as Turc et al. 2019 and, for large, Devlin et al. 2019 give them.
        ("tiny", 4.4),
        ("mini", 11.3),
        ("small", 29.1),
        ("medium", 41.7),
        ("base", 110.1),
        ("large", 340),
    ],
)
def test_sizes_are_those_published(name: str, parameters: float) -> None:
    with torch.device("meta"):
        model = BertModel(BertConfig(**PRESETS[name]))
    assert model.num_parameters() / 1e6 == pytest.approx(parameters, rel=0.02)


def test_base_and_large_have_as_many_parameters_as_the_published_files() -> None:
    for name, parameters in (("base", 109_482_240), ("large", 335_141_888)):
        with torch.device("meta"):
            assert BertModel(BertConfig(**PRESETS[name])).num_parameters() == parameters


def test_a_head_is_64_wide() -> None:
    for sizes in PRESETS.values():
        assert sizes["hidden_size"] == 64 * sizes["num_attention_heads"]


def test_roberta_has_as_many_parameters_as_the_published_files() -> None:
    sizes = FAMILIES["roberta"].presets()
    for name, parameters in (("base", 124_645_632), ("large", 355_359_744)):
        config = RobertaConfig(max_position_embeddings=514, **sizes[name])
        with torch.device("meta"):
            model = FAMILIES["roberta"].model_class("body")(config)
        assert model.num_parameters() == parameters
