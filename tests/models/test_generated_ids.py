"""``generate`` with the reference's keyword arguments returns the reference's token ids."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.exact import assert_same_bits
from tests.tiny_folders import write_folder

from heedful import GPT2LMHeadModel, GPT2Tokenizer, Search, UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a GPT-2 with a padding token, and with the tokenizer that pads on the left."""
    plain, path = (tmp_path_factory.mktemp("gpt2") / name for name in ("plain", "model"))
    write_folder("gpt2", plain)
    tokenizer = GPT2Tokenizer.from_pretrained(plain, padding_side="left", pad_token="<|pad|>")
    model = GPT2LMHeadModel.from_pretrained(plain)
    model.resize_token_embeddings(len(tokenizer))
    torch.manual_seed(1)
    torch.nn.init.normal_(model.get_input_embeddings().weight)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize(
    "options",
    [
        {"max_new_tokens": 9},
        {"max_length": 15, "do_sample": False, "use_cache": True},
        {},
        {"max_new_tokens": 9, "num_beams": 3, "early_stopping": True},
        {
            "max_new_tokens": 9,
            "num_beams": 4,
            "num_return_sequences": 2,
            "early_stopping": True,
            "length_penalty": 0.5,
        },
        {"max_new_tokens": 9, "num_beams": 3},
        {"max_new_tokens": 5, "num_beams": 4, "num_return_sequences": 4, "early_stopping": False},
        {"max_new_tokens": 5, "num_beams": 4, "num_return_sequences": 4, "early_stopping": True},
        {"max_new_tokens": 9, "num_beams": 4, "num_return_sequences": 3, "length_penalty": -1.0},
        {"max_new_tokens": 9, "num_beams": 4, "num_return_sequences": 3, "length_penalty": 2.0},
        {"max_new_tokens": 7, "min_new_tokens": 4},
        {"max_new_tokens": 7, "min_length": 8, "num_beams": 2},
        {"max_new_tokens": 9, "no_repeat_ngram_size": 2},
        {"max_new_tokens": 9, "repetition_penalty": 1.3},
        {"max_new_tokens": 9, "repetition_penalty": 0.8, "do_sample": True, "top_k": 1},
        {"max_new_tokens": 9, "num_beams": 3, "early_stopping": True, "no_repeat_ngram_size": 3},
        {"max_new_tokens": 9, "num_beams": 3, "early_stopping": True, "repetition_penalty": 1.5},
    ],
    ids=str,
)
def test_texts_are_the_references(folder: Path, options: dict[str, Any]) -> None:
    tokenizer = GPT2Tokenizer.from_pretrained(folder)
    inputs = tokenizer(["a b c d", "z", "hello you"], padding=True, return_tensors="pt")
    ours = GPT2LMHeadModel.from_pretrained(folder)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    plain = ours.generate(**inputs, max_new_tokens=9, eos_token_id=3)
    for end in (3, int(plain[0, -6])):  # the second ends texts early
        more = {"eos_token_id": end, "pad_token_id": tokenizer.pad_token_id, **options}
        expected = theirs.generate(**inputs, **more)
        assert_same_bits(ours.generate(**inputs, **more), expected, "whole numbers")
        assert_same_bits(ours.generate(inputs["input_ids"], **more), expected, "whole numbers")


@pytest.mark.parametrize("more", [{}, {"num_beams": 2, "early_stopping": True}], ids=str)
def test_the_ngrams_of_the_prompt_count(folder: Path, more: dict[str, Any]) -> None:
    model = GPT2LMHeadModel.from_pretrained(folder)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    prompt = torch.tensor([[5, 6]])
    options: dict[str, Any] = {"max_new_tokens": 4, "eos_token_id": 3, "pad_token_id": 0, **more}
    text = model.generate(prompt, **options)  # begins with the likeliest tokens
    again = torch.cat([text, prompt], 1)
    limited = {**options, "no_repeat_ngram_size": 3}
    continued = model.generate(again, **limited)
    assert_same_bits(continued, theirs.generate(again, **limited), "whole numbers")
    unlimited = model.generate(again, **options)
    assert unlimited.tolist() != continued.tolist()


def test_samples_depend_on_the_random_state(folder: Path) -> None:
    tokenizer = GPT2Tokenizer.from_pretrained(folder)
    inputs = tokenizer("a b", return_tensors="pt")
    model = GPT2LMHeadModel.from_pretrained(folder)
    options: Any = {"do_sample": True, "max_new_tokens": 6, "num_return_sequences": 3, "top_k": 0}
    options["temperature"] = 20.0
    texts = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        texts.append(model.generate(**inputs, eos_token_id=3, **options))
    assert texts[0].shape == (3, 9)
    assert texts[0].tolist() == texts[1].tolist()
    assert texts[0].tolist() != texts[2].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_new_token": 3}, "unknown option 'max_new_token' .did you mean 'max_new_tokens'"),
        (
            {"num_beams": 3, "early_stopping": "never"},
            "early_stopping is 'never'; it must be True or False",
        ),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0; it must be a number above 0"),
        ({"max_length": 1}, "max_length is 1; the prompts have 1 tokens"),
        ({"eos_token_id": [1, 2]}, r"eos_token_id is \[1, 2\]; it must be one token id"),
        (
            {"attention_mask": torch.ones(1, 2)},
            r"attention_mask has shape \(1, 2\); it must be \(1, 1\)",
        ),
        ({"item_seeds": [0]}, "item_seeds are for a search"),
        ({"search": Search(eos_token_id=3), "top_k": 3}, "search and top_k are given"),
    ],
    ids=str,
)
def test_what_generate_refuses(folder: Path, options: Any, message: str) -> None:
    model = GPT2LMHeadModel.from_pretrained(folder)
    with pytest.raises(UserError, match=message):
        model.generate(torch.tensor([[5]]), **options)
