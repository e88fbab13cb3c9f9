"""GPT-2 reads published folders of the reference, and generates as the reference does."""

import gzip
import itertools
import random
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.exact import assert_same_bits
from tests.parity.equal import assert_equal
from tests.parity.families import B, C, H, L, S, V, by_file_name, pair_of_models
from torch import Tensor, nn

import heedful
from heedful.decoding.search import Search
from heedful.errors import UserError
from heedful.files import read_json, read_tensors
from heedful.models import GPT2DoubleHeadsModel, GPT2LMHeadModel


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    """Provide the folder of a tiny GPT-2 as the reference writes it, unpacked."""
    folder = tmp_path_factory.mktemp("published")
    for path in (data_folder / "tokenizers" / "tiny-gpt2").iterdir():
        if path.suffix == ".gz":
            (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, folder / path.name)
    return folder


def test_a_published_folder(reference: ModuleType, published: Path) -> None:
    ours = heedful.load_model(published)
    assert type(ours) is GPT2LMHeadModel
    tokenizer = heedful.load_tokenizer(published)
    ids = torch.tensor(tokenizer.encode_batch(["The cat sat on the mat."]))
    theirs = reference.GPT2LMHeadModel.from_pretrained(published).eval()
    with torch.no_grad():
        torch.testing.assert_close(ours(ids).logits, theirs(ids).logits)


def test_it_writes_as_the_reference(reference: ModuleType) -> None:
    ours, theirs = pair_of_models(reference, "gpt2", "GPT2LMHeadModel")
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    for beams in (1, 3):
        written = theirs.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=8,
            num_beams=beams,
            do_sample=False,
            eos_token_id=0,
            pad_token_id=49,
        )
        search = Search(eos_token_id=0, max_new_tokens=8, num_beams=beams)
        for row, (best, *_) in zip(
            written.tolist(), ours.generate(ids, search=search), strict=True
        ):
            right = [token for token in row[3:] if token != 49]
            assert [*best.tokens, *([0] if best.ended else [])] == right


@pytest.mark.parametrize(
    "more", [{}, {"scale_attn_by_inverse_layer_idx": True}, {"scale_attn_weights": False}]
)
def test_scores_in_float32(reference: ModuleType, more: dict[str, bool]) -> None:
    """The reference does not support the option in float64."""
    changes = {"reorder_and_upcast_attn": True, **more}
    ours, theirs = pair_of_models(reference, "gpt2", "GPT2Model", **changes)
    assert ours.config.reorder_and_upcast_attn
    ids = torch.randint(V, (B, S))
    output, expected = (model.float()(ids).last_hidden_state for model in (ours, theirs))
    torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)


# Two heads.

DOUBLE: dict[str, list[Any]] = {
    "summary_type": ["cls_index", "last", "first", "mean"],
    "summary_use_proj": [True, False],
    "summary_proj_to_labels": [True, False],
    "summary_activation": [None, "tanh"],
    "scale_attn_weights": [True, False],
    "scale_attn_by_inverse_layer_idx": [False, True],
    "tie_word_embeddings": [True, False],
    "n_inner": [None, 40],
    "mc_token_ids": [False, True],
    "labels": [False, True],
    "mc_labels": [False, True],
    "token_type_ids": [False, True],
    "head_mask": [False, True],
    "padding": [False, True],
}
"""Options of the configuration and of the call; the first of each is the default."""

_ALONE = [{}, *({name: value} for name, values in DOUBLE.items() for value in values[1:])]
_PAIRS = [
    {one: first, other: second}
    for one, other in itertools.combinations(DOUBLE, 2)
    for first in DOUBLE[one][1:]
    for second in DOUBLE[other][1:]
]
_CASES = {
    "-".join(f"{name}={value}" for name, value in chosen.items()) or "default": chosen
    for chosen in [*_ALONE, *random.Random(0).sample(_PAIRS, 40)]
}
_CALL = ("mc_token_ids", "labels", "mc_labels", "token_type_ids", "head_mask", "padding")


def _choices(chosen: dict[str, Any]) -> dict[str, Tensor]:
    torch.manual_seed(1)
    batch = {"input_ids": torch.randint(V - 1, (B, C, S))}
    if chosen.get("padding"):
        kept = torch.tensor([[7, 4], [2, 7], [1, 3]])
        batch["attention_mask"] = (torch.arange(S) < kept[..., None]).long()
    if chosen.get("mc_token_ids"):
        batch["mc_token_ids"] = torch.randint(S, (B, C))
    if chosen.get("labels"):
        batch["labels"] = batch["input_ids"].masked_fill(torch.rand(B, C, S) < 0.4, -100)
    if chosen.get("mc_labels"):
        batch["mc_labels"] = torch.tensor([1, 0, -100])
    if chosen.get("token_type_ids"):
        batch["token_type_ids"] = torch.randint(V, (B, C, S))
    if chosen.get("head_mask"):
        batch["head_mask"] = torch.rand(L, H, dtype=torch.float64)
    return batch


def _expected(theirs: Any, batch: dict[str, Tensor], kind: str) -> dict[str, Tensor]:
    """Ask the reference, choice by choice where its model takes the texts of an item for tokens.

    It reads the number of a choice from padding, too, so it is told which token is the last.
    """
    batch = dict(batch)
    if kind != "cls_index":
        batch.pop("mc_token_ids", None)
    elif "mc_token_ids" not in batch and "attention_mask" in batch:
        batch["mc_token_ids"] = batch["attention_mask"].sum(-1) - 1
    if kind == "cls_index":
        return dict(theirs(**batch, use_cache=False).items())
    flat = {
        name: batch[name].flatten(0, 1)
        for name in ("input_ids", "attention_mask", "token_type_ids")
        if name in batch
    }
    more = {"head_mask": batch["head_mask"]} if "head_mask" in batch else {}
    hidden = theirs.transformer(**flat, **more, use_cache=False).last_hidden_state
    lengths = [S] * len(hidden)
    if "attention_mask" in flat:
        lengths = flat["attention_mask"].sum(1).tolist()
    numbers = torch.cat(
        [
            theirs.multiple_choice_head(text[None, :length])
            for text, length in zip(hidden, lengths, strict=True)
        ]
    )
    numbers = numbers.view(B, C, -1)
    logits = theirs.lm_head(hidden).view(B, C, S, V)
    expected = {"logits": logits, "mc_logits": numbers.squeeze(-1)}
    if "labels" in batch:
        right = batch["labels"][..., 1:].flatten()
        expected["loss"] = nn.functional.cross_entropy(logits[..., :-1, :].reshape(-1, V), right)
    if "mc_labels" in batch:
        expected["mc_loss"] = nn.functional.cross_entropy(expected["mc_logits"], batch["mc_labels"])
    return expected


@pytest.mark.parametrize("chosen", _CASES.values(), ids=list(_CASES))
def test_two_heads(reference: ModuleType, chosen: dict[str, Any]) -> None:
    changes = {name: value for name, value in chosen.items() if name not in _CALL}
    training = len(chosen) % 2 == 0
    ours, theirs = pair_of_models(
        reference,
        "gpt2",
        "GPT2DoubleHeadsModel",
        training=training,
        summary_first_dropout=0.0,
        **changes,
    )
    batch = _choices(chosen)
    kind = chosen.get("summary_type", "cls_index")
    no_number = not (
        chosen.get("summary_use_proj", True) and chosen.get("summary_proj_to_labels", True)
    )
    if no_number and "mc_labels" in batch:
        with pytest.raises(UserError, match="has no score of a choice"):
            ours(**batch)
        return
    expected = _expected(theirs, batch, kind)
    output = ours(**batch)
    assert {*output} == {*expected}
    for name, right in expected.items():
        assert_equal(output[name], right, name)
    dice = torch.Generator().manual_seed(2)
    for numbers in (output, expected):
        dice.manual_seed(2)
        total = sum(
            (numbers[name] * torch.randn(numbers[name].shape, generator=dice)).sum()
            for name in sorted(expected)
        )
        total.backward()  # type: ignore[union-attr]
    gradients = by_file_name(ours, {name: x.grad for name, x in ours.named_parameters()})
    for name, parameter in theirs.named_parameters():
        assert_equal(gradients.pop(name), parameter.grad, name)
    assert gradients == {}


def test_two_heads_in_folders(reference: ModuleType, tmp_path: Path) -> None:
    ours, theirs = pair_of_models(reference, "gpt2", "GPT2DoubleHeadsModel")
    ours, theirs = ours.float(), theirs.float()
    ours.save_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    written, given = (read_tensors(tmp_path / x / "model.safetensors") for x in ("ours", "theirs"))
    assert_same_bits(written, given, "stored")
    configs = [read_json(tmp_path / name / "config.json") for name in ("ours", "theirs")]
    assert configs[0]["architectures"] == ["GPT2DoubleHeadsModel"]
    assert {
        key: value for key, value in configs[1].items() if configs[0].get(key) != value
    }.keys() <= {"transformers_version", "dtype", "task_specific_params", "is_decoder"}
    batch = _choices({})
    again = heedful.load_model(tmp_path / "theirs")
    assert type(again) is GPT2DoubleHeadsModel
    assert_same_bits(again(**batch).mc_logits, ours(**batch).mc_logits, "stored")
    read = reference.GPT2DoubleHeadsModel.from_pretrained(tmp_path / "ours")
    torch.testing.assert_close(read(**batch).mc_logits, theirs(**batch).mc_logits)


# What stands for a text.


@pytest.mark.parametrize("pad", [None, 49])
@pytest.mark.parametrize("masked", [False, True])
def test_a_text_is_classified_by_its_last_token(
    reference: ModuleType, pad: int | None, masked: bool
) -> None:
    ours, theirs = pair_of_models(
        reference, "gpt2", "GPT2ForSequenceClassification", pad_token_id=pad, num_labels=3
    )
    torch.manual_seed(1)
    ids = torch.randint(V - 1, (B, S))
    if pad is None:  # the reference then takes one text at a time, and its last token
        for row in ids:
            mask = {"attention_mask": torch.ones(1, S).long()} if masked else {}
            assert_equal(ours(row[None], **mask).logits, theirs(row[None], **mask).logits, "logits")
        return
    kept = torch.arange(S) < torch.tensor([[7], [4], [1]])
    ids[~kept] = pad
    mask = {"attention_mask": kept.long()} if masked else {}
    assert_equal(ours(ids, **mask).logits, theirs(ids, **mask).logits, "logits")
