"""Models of a user's own load and save all that they add to a body, of any kind."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from torch import nn

from heedful import BertForSequenceClassification, BertPreTrainedModel
from heedful.errors import UserError
from heedful.models import BertConfig, BertModel


@pytest.fixture
def folder(config: BertConfig, tmp_path: Path) -> Path:
    """Provide a folder with a body."""
    BertModel(config).save_pretrained(tmp_path / "body")
    return tmp_path / "body"


class Extended(BertForSequenceClassification):
    """A classifier with parameters and buffers of many kinds."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.register_buffer("class_weights", torch.tensor([1.0, 3.0]))
        self.register_buffer("scratch", torch.ones(2), persistent=False)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.recurrent = nn.GRU(config.hidden_size, 4)
        self.batch_norm = nn.BatchNorm1d(3)
        self.convolution = nn.Conv1d(3, 4, 2)


def test_what_a_folder_lacks_is_as_the_constructor_made_it(folder: Path) -> None:
    torch.manual_seed(0)
    model = Extended.from_pretrained(folder)
    assert model.scale.item() == 2
    assert model.class_weights.tolist() == [1, 3]
    assert model.scratch.tolist() == [1, 1]
    assert model.batch_norm.running_var.tolist() == [1, 1, 1]
    torch.manual_seed(0)
    drawn = Extended(model.config)
    assert_same_bits(model.recurrent.state_dict(), drawn.recurrent.state_dict(), "moved")
    # As in the reference, a fresh linear layer has the configuration's standard deviation.
    assert 0 < model.classifier.weight.std() < 2 * model.config.initializer_range


def test_all_of_it_is_saved(folder: Path, tmp_path: Path) -> None:
    model = Extended.from_pretrained(folder)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.add_(1)
    model.save_pretrained(tmp_path / "saved")
    again = Extended.from_pretrained(tmp_path / "saved")
    assert_same_bits(again.state_dict(), model.state_dict(), "stored")
    assert again.batch_norm.num_batches_tracked.item() == 1


class Namesake(BertPreTrainedModel):
    """A model with parts beside its body that are named like parts of a body."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.layernorm = nn.LayerNorm(config.hidden_size)
        self.encoder = nn.LSTM(config.hidden_size, 4)


def test_parts_may_be_named_like_those_of_a_body(folder: Path, tmp_path: Path) -> None:
    model = Namesake.from_pretrained(folder)
    assert_same_bits(
        model.bert.state_dict(), BertModel.from_pretrained(folder).state_dict(), "stored"
    )
    model.save_pretrained(tmp_path / "saved")
    again = Namesake.from_pretrained(tmp_path / "saved")
    assert_same_bits(again.state_dict(), model.state_dict(), "stored")
    body = BertModel.from_pretrained(tmp_path / "saved")
    assert_same_bits(body.state_dict(), model.bert.state_dict(), "stored")


class Tied(BertPreTrainedModel):
    """A model whose output layer has the word embeddings as its weight."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config)
        self.out = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.out.weight = self.bert.get_input_embeddings().weight


def test_a_shared_weight_is_saved_once(folder: Path, tmp_path: Path) -> None:
    model = Tied.from_pretrained(folder)
    model.save_pretrained(tmp_path / "saved")
    again = Tied.from_pretrained(tmp_path / "saved")
    assert again.out.weight is again.bert.get_input_embeddings().weight
    assert_same_bits(again.out.weight, model.out.weight, "stored")


@pytest.mark.parametrize("dtype", ["auto", torch.float64])
def test_float64_is_not_rounded(config: BertConfig, tmp_path: Path, dtype: str) -> None:
    model = BertModel(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    model.save_pretrained(tmp_path / "wide")
    again = BertModel.from_pretrained(tmp_path / "wide", dtype=dtype)
    assert_same_bits(again.state_dict(), model.state_dict(), "stored")


@pytest.mark.parametrize("option", ["dtype", "torch_dtype"])
def test_the_dtype_of_a_model_of_a_users_own(folder: Path, option: str) -> None:
    options: Any = {option: torch.float64, "attn_implementation": "sdpa"}
    model = Namesake.from_pretrained(folder, **options)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
    plain = Namesake.from_pretrained(folder, **{option: "auto"})
    assert {parameter.dtype for parameter in plain.parameters()} == {torch.float32}
    with pytest.raises(UserError, match="attn_implementation"):
        Namesake.from_pretrained(folder, attn_implementation="fast")
