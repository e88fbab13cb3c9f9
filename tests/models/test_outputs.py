from pathlib import Path

import pytest
import torch
from tests.tiny import SIZES
from tests.tiny_folders import OTHER_KEYS
from torch.utils._pytree import tree_flatten, tree_unflatten

from heedful.models import FAMILIES
from heedful.models.outputs import BertModelOutput, ClassifierOutput

LOSS, LOGITS = torch.tensor(1.5), torch.ones(2, 3)


def test_values_by_attribute_key_index_and_slice() -> None:
    output = ClassifierOutput(loss=LOSS, logits=LOGITS)
    assert output.loss is output["loss"] is output[0] is LOSS
    assert output.logits is output["logits"] is output[1] is output[-1] is LOGITS
    loss, logits = output[:2]
    assert loss is LOSS
    assert logits is LOGITS
    assert output.to_tuple() == (LOSS, LOGITS)


def test_what_is_none_is_passed_over() -> None:
    output = ClassifierOutput(logits=LOGITS, attentions=(LOSS,))
    assert output.loss is None
    assert output[0] is LOGITS
    assert output[1] == (LOSS,)
    assert output.keys() == list(output) == ["logits", "attentions"]
    assert len(output) == 2
    assert "loss" not in output
    assert "logits" in output
    assert dict(output) == {"logits": LOGITS, "attentions": (LOSS,)}


def test_it_is_read_like_a_dictionary() -> None:
    output = ClassifierOutput(logits=torch.zeros(1, 2))
    names, values = zip(*output.items(), strict=True)
    assert names == ("logits",)
    assert values[0] is output.values()[0] is output.logits
    assert output.get("logits") is output.logits
    assert output.get("loss") is None
    assert output.get("loss", 3) == 3


def test_order_is_the_references() -> None:
    states = (LOGITS,)
    output = BertModelOutput(
        attentions=states, hidden_states=states, pooler_output=LOSS, last_hidden_state=LOGITS
    )
    assert output.keys() == ["last_hidden_state", "pooler_output", "hidden_states", "attentions"]


def test_wrong_keys_and_indices() -> None:
    output = ClassifierOutput(logits=LOGITS)
    with pytest.raises(KeyError, match="'loss' is not in this output; it has logits"):
        output["loss"]
    with pytest.raises(IndexError):
        output[1]
    with pytest.raises(AttributeError):
        output.loss = LOSS  # type: ignore[misc]


def test_torch_takes_outputs_apart_and_puts_them_together() -> None:
    output = ClassifierOutput(logits=LOGITS, attentions=(LOSS,))
    parts, structure = tree_flatten(output)
    assert parts == [LOGITS, LOSS]
    again = tree_unflatten(parts, structure)
    assert type(again) is ClassifierOutput
    assert again.logits is LOGITS
    (attention,) = again.attentions or ()
    assert attention is LOSS
    assert again.loss is None


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "distilbert"])
def test_torch_exports_models(family: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = SIZES | {"max_position_embeddings": 16}
    sizes = {OTHER_KEYS.get(family, {}).get(name, name): size for name, size in sizes.items()}
    config = FAMILIES[family].config_class()(**sizes)
    model = FAMILIES[family].model_class("sequence").from_config(config).eval()
    inputs = {"input_ids": torch.randint(5, 50, (2, 7)), "attention_mask": torch.ones(2, 7).long()}
    program = torch.export.export(model, (), inputs)
    torch.export.save(program, tmp_path / "model.pt2")
    inputs["attention_mask"][1, 4:] = 0
    inputs["input_ids"] = inputs["input_ids"].flip(1)
    exported = torch.export.load(tmp_path / "model.pt2").module()(**inputs)
    torch.testing.assert_close(exported.logits, model(**inputs).logits)
