"""The dropout rate of attention weights changes independently of the others."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.golden.cases import CURVES
from tests.golden.curves import START

from heedful.cli import run as run_words
from heedful.errors import UserError
from heedful.layers.multihead import MultiHead
from heedful.models import FAMILIES
from heedful.models.dropout import set_attention_dropout
from heedful.models.model import Model

SIZES: dict[str, Any] = {"distilbert": {"n_layers": 2}, "gpt2": {"n_layer": 2}}
NAMES = {"distilbert": "attention_dropout", "gpt2": "attn_pdrop"}
FAMILY_NAMES = [name for name, family in FAMILIES.items() if "body" in family.models]


def made(family: str, head: Any) -> Model:
    config = FAMILIES[family].config_class()
    model: Model = (
        FAMILIES[family]
        .model_class(head)
        .from_config(config(**SIZES.get(family, {"num_hidden_layers": 2})))
    )
    return model


def rates(model: Model) -> set[float]:
    """Return the dropout rates of a model's attention."""
    return {part.dropout.p for part in model.modules() if isinstance(part, MultiHead)}


@pytest.mark.parametrize("family", [name for name in FAMILY_NAMES if name != "xlnet"])
def test_every_family_says_it_in_its_config(family: str) -> None:
    model = made(family, "sequence")
    before = model.config.to_dict()
    set_attention_dropout(model, 0.25)
    assert rates(model) == {0.25}
    after = model.config.to_dict()
    name = NAMES.get(family, "attention_probs_dropout_prob")
    assert after == before | {name: 0.25}


def test_a_family_with_one_rate_for_all_is_refused() -> None:
    config = FAMILIES["xlnet"].config_class()(n_layer=1)
    model = FAMILIES["xlnet"].model_class("sequence").from_config(config)
    with pytest.raises(UserError, match=r"^--attention-dropout: XLNetForSequenceClassification"):
        set_attention_dropout(model, 0.0)


@pytest.mark.parametrize(
    ("task", "files"),
    [
        ("classify", ["config.json"]),
        ("translate-few", ["config.json"]),
        ("generate", ["config.json"]),
        ("generate-pairs", ["config.json"]),
    ],
)
def test_a_run_keeps_it(
    task: str, files: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(START)
    out = tmp_path / "run"
    words = ["train", *CURVES[task], "--steps", "1", "--dropout", "0.2", "--out", str(out)]
    assert run_words([*words, "--attention-dropout", "0.3"]) == 0
    config = json.loads((out / "config.json").read_text())
    parts = [config[part] for part in ("encoder", "decoder") if isinstance(config.get(part), dict)]
    for part in parts or [config]:
        dropouts = {k: v for k, v in part.items() if k.startswith(("attention_", "attn"))}
        assert 0.3 in dropouts.values()
        assert 0.2 in part.values()
