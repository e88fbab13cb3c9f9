"""A misspelt keyword argument is an error that names the nearest one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny_folders import write_folder

import heedful
from heedful.arguments import UnknownArgumentError, suggest_arguments

IDS = torch.tensor([[5, 6, 7]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bert") / "model"
    write_folder("bert", path)
    return path


CALLS: dict[str, Callable[[Any, Path], object]] = {
    "padding": lambda lib, folder: lib.BertTokenizer.from_pretrained(folder)("a", paddin=True),
    "skip_special_tokens": lambda lib, folder: lib.load_tokenizer(folder).decode(
        [1], skip_special_token=True
    ),
    "add_special_tokens": lambda lib, folder: lib.load_tokenizer(folder).encode(
        "a", add_special_token=False
    ),
    "single_word": lambda lib, folder: lib.AddedToken("x", singl_word=True),
    "add_pooling_layer": lambda lib, folder: lib.BertModel.from_pretrained(
        folder, add_poling_layer=False
    ),
    "token_type_ids": lambda lib, folder: lib.BertModel.from_pretrained(folder)(
        IDS, token_types_ids=IDS
    ),
    "labels": lambda lib, folder: lib.BertForSequenceClassification.from_pretrained(folder)(
        IDS, labls=IDS
    ),
    "overwrite": lambda lib, folder: lib.BertModel.from_pretrained(folder).save_pretrained(
        folder, overwrit=True
    ),
    "hidden_size": lambda lib, folder: lib.BertConfig(hiden_size=3),
    "d_model": lambda lib, folder: lib.TransformerConfig(vocab_size=9, d_modl=3),
    "head": lambda lib, folder: lib.load_model(folder, hed="body"),
    "revision": lambda lib, folder: lib.load_tokenizer(folder, revison="main"),
    "num_warmup_steps": lambda lib, folder: lib.get_linear_schedule_with_warmup(
        None, num_warmup_step=1, num_training_steps=3
    ),
    "num_beams": lambda lib, folder: lib.Search(eos_token_id=1, num_beam=3),
    "epochs": lambda lib, folder: lib.train("classify", train="a.csv", out="b", epocs=3),
}


@pytest.mark.parametrize("nearest", CALLS)
def test_the_message_names_the_nearest(folder: Path, nearest: str) -> None:
    with pytest.raises(heedful.UserError, match=f"did you mean '{nearest}'"):
        CALLS[nearest](heedful, folder)


def test_python_users_catch_a_type_error(folder: Path) -> None:
    model = heedful.BertForSequenceClassification.from_pretrained(folder)
    with pytest.raises(TypeError, match="BertForSequenceClassification has no argument 'labls'"):
        model(IDS, labls=IDS)


def test_other_errors_stay() -> None:
    @suggest_arguments
    def divide(number: Any, by: float = 2) -> Any:
        return number / by

    assert divide(3, by=4) == pytest.approx(0.75)
    with pytest.raises(TypeError, match="unsupported operand"):
        divide("three", by=4)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        divide(by=4)  # type: ignore[call-arg]


def test_old_names_are_explained(folder: Path) -> None:
    tokenizer = heedful.BertTokenizer.from_pretrained(folder)
    with pytest.raises(UnknownArgumentError, match='; give padding="max_length"'):
        tokenizer("a", pad_to_max_length=True)  # type: ignore[call-arg]
    model = heedful.BertForMaskedLM.from_pretrained(folder)
    with pytest.raises(UnknownArgumentError, match=r"; give labels=\.\.\."):
        model(IDS, masked_lm_labels=IDS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("AutoModelForTokenClassification", r"use heedful\.load_model\(folder, head=\.\.\.\)"),
        ("AutoTokenizer", r"use heedful\.load_tokenizer\(folder\)"),
        ("Trainer", r"use heedful\.train\("),
    ],
)
def test_names_of_the_reference_are_explained(name: str, message: str) -> None:
    with pytest.raises(ImportError, match=f"heedful has no {name}; {message}"):
        getattr(heedful, name)
