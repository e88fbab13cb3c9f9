"""``generate`` with the reference's keyword arguments returns the reference's token ids."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.exact import assert_same_bits
from tests.tiny import SIZES, STILL
from tests.tiny_folders import write_folder

import heedful
from heedful import (
    BertLMHeadModel,
    BertModel,
    GPT2DoubleHeadsModel,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    Search,
    UserError,
)
from heedful.models.generated_ids import GenerateOptions


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
        {"max_new_tokens": 9, "min_new_tokens": 1, "min_length": 12},
        {"max_new_tokens": 7, "min_new_tokens": 7},
        {"max_new_tokens": 6, "min_new_tokens": 6, "num_beams": 3, "num_return_sequences": 2},
        {"max_length": 11, "min_length": 11, "num_beams": 2, "early_stopping": True},
        {"max_new_tokens": 9, "no_repeat_ngram_size": 2},
        {"max_new_tokens": 9, "repetition_penalty": 1.3},
        {"max_new_tokens": 9, "repetition_penalty": 0.8, "do_sample": True, "top_k": 1},
        {"max_new_tokens": 9, "num_beams": 3, "early_stopping": True, "no_repeat_ngram_size": 3},
        {"max_new_tokens": 9, "num_beams": 3, "early_stopping": True, "repetition_penalty": 1.5},
        {"max_new_tokens": 9, "bad_words_ids": [[3], [8], [40]]},
        {"max_new_tokens": 9, "num_beams": 3, "bad_words_ids": [[8], [40]]},
        {"max_new_tokens": 9, "temperature": None, "top_p": None, "min_new_tokens": None},
        {"max_new_tokens": None, "max_length": 12, "num_beams": 2, "do_sample": None},
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
        ({"max_new_tokens": "3"}, "max_new_tokens is '3'; it must be a whole number"),
        ({"max_length": 2.5}, "max_length is 2.5; it must be a whole number"),
        ({"num_beams": True}, "num_beams is True; it must be a whole number"),
        ({"do_sample": True, "temperature": "1"}, "temperature is '1'; it must be a number"),
        ({"length_penalty": True}, "length_penalty is True; it must be a number"),
        (
            {"bad_words_ids": [[1, 2]]},
            r"bad_words_ids is \[\[1, 2\]\]; expected words of one token",
        ),
        (
            {"token_type_ids": torch.ones(1, 2, dtype=torch.long)},
            r"token_type_ids has shape \(1, 2\); it must be \(1, 1\)",
        ),
        ({"pad_token_id": "a"}, "pad_token_id is 'a'; it must be one token id"),
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


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a BERT that continues texts, saved by the reference with options of ``generate``."""
    path = tmp_path_factory.mktemp("bert")
    torch.manual_seed(2)
    model = transformers.BertLMHeadModel(
        transformers.BertConfig(
            **{**SIZES, **STILL}, is_decoder=True, initializer_range=1.0, eos_token_id=7
        )
    )
    model.generation_config = transformers.GenerationConfig(
        eos_token_id=7, pad_token_id=1, bad_words_ids=[[5]], num_beams=3, max_new_tokens=6
    )
    model.save_pretrained(path)
    return path


PROMPTS = {
    "input_ids": torch.tensor([[2, 9, 8, 4], [0, 0, 2, 6]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]]),
    "token_type_ids": torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]),
}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_beams": 1, "max_new_tokens": 9},
        {"num_beams": 2, "early_stopping": True},
        {"eos_token_id": None},
        {"eos_token_id": None, "num_beams": 1, "min_new_tokens": 2},
    ],
    ids=str,
)
def test_a_bert_takes_its_tokenizers_inputs_and_its_folders_options(
    bert: Path, tmp_path: Path, options: Any
) -> None:
    theirs = transformers.BertLMHeadModel.from_pretrained(bert).eval()
    ours = BertLMHeadModel.from_pretrained(bert)
    likely = int(theirs.generate(**PROMPTS, num_beams=1, eos_token_id=None)[0, 6])
    for end in (7, likely):
        theirs.generation_config.eos_token_id = end
        theirs.save_pretrained(tmp_path)
        ours = BertLMHeadModel.from_pretrained(tmp_path)
        expected = theirs.generate(**PROMPTS, **options)
        assert_same_bits(ours.generate(**PROMPTS, **options), expected, "whole numbers")
    plain = {**PROMPTS, "token_type_ids": torch.zeros(2, 4, dtype=torch.long)}
    assert_same_bits(
        ours.generate(**plain, **options), theirs.generate(**plain, **options), "whole numbers"
    )


def test_the_end_token_of_a_configuration_and_none(bert: Path, tmp_path: Path) -> None:
    theirs = transformers.BertLMHeadModel.from_pretrained(bert).eval()
    likely = int(theirs.generate(**PROMPTS, num_beams=1, eos_token_id=None)[0, 6])
    theirs.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text())
    for end in (likely, None):
        (tmp_path / "config.json").write_text(json.dumps({**config, "eos_token_id": end}))
        theirs = transformers.BertLMHeadModel.from_pretrained(tmp_path).eval()
        ours = BertLMHeadModel.from_pretrained(tmp_path)
        expected = theirs.generate(**PROMPTS, max_new_tokens=8)
        found = ours.generate(**PROMPTS, max_new_tokens=8)
        assert_same_bits(found, expected, "whole numbers")
    assert found.shape == (2, 12)


def test_the_options_of_a_folder_are_saved(bert: Path, tmp_path: Path) -> None:
    model = BertLMHeadModel.from_pretrained(bert)
    model.save_pretrained(tmp_path / "again")
    saved, stored = (path / "generation_config.json" for path in (tmp_path / "again", bert))
    assert json.loads(saved.read_text()) == json.loads(stored.read_text())
    with pytest.raises(UserError, match=r"again has a config\.json"):
        BertLMHeadModel.from_pretrained(bert).save_pretrained(tmp_path / "again")
    body = BertModel.from_pretrained(bert, is_decoder=False)
    body.save_pretrained(tmp_path / "body")
    assert not (tmp_path / "body" / "generation_config.json").exists()


def test_options_of_a_folder_that_are_not_supported(bert: Path, tmp_path: Path) -> None:
    model = BertLMHeadModel.from_pretrained(bert)
    model.save_pretrained(tmp_path)
    stored = {"eos_token_id": 7, "typical_p": 1.0, "diversity_penalty": 0.0, "min_p": None}
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps(stored))
    BertLMHeadModel.from_pretrained(tmp_path).generate(**PROMPTS, max_new_tokens=3)
    path.write_text(json.dumps({**stored, "typical_p": 0.5}))
    model = BertLMHeadModel.from_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"has typical_p 0\.5, which generate does not support"):
        model.generate(**PROMPTS)
    search = Search(eos_token_id=7, max_new_tokens=3)
    assert len(model.generate(PROMPTS["input_ids"][:1], search=search)) == 1


def test_two_heads_do_not_generate(folder: Path) -> None:
    model = GPT2DoubleHeadsModel.from_pretrained(folder)
    assert not hasattr(model, "generate")
    with pytest.raises(UserError, match=r"does not generate; GPT2LMHeadModel\.from_pretrained"):
        model.generate(torch.tensor([[5]]), max_new_tokens=3)


@pytest.mark.parametrize("beams", [1, 3])
def test_scores_are_the_references(folder: Path, beams: int) -> None:
    tokenizer = GPT2Tokenizer.from_pretrained(folder)
    inputs = tokenizer(["a b c d", "z", "hello you"], padding=True, return_tensors="pt")
    ours = GPT2LMHeadModel.from_pretrained(folder)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    end = int(ours.generate(**inputs, max_new_tokens=9, eos_token_id=3)[0, -6])
    options: dict[str, Any] = {"eos_token_id": end, "pad_token_id": tokenizer.pad_token_id}
    options |= {"max_new_tokens": 9, "num_beams": beams, "num_return_sequences": beams}
    options |= {"output_scores": True, "return_dict_in_generate": True}
    our, their = ours.generate(**inputs, **options), theirs.generate(**inputs, **options)
    assert_same_bits(our.sequences, their.sequences, "whole numbers")
    assert_same_bits(
        our["sequences"],
        ours.generate(**inputs, **{**options, "return_dict_in_generate": False}),
        "same code",
    )
    if beams > 1:
        torch.testing.assert_close(our.sequences_scores, their.sequences_scores)
        assert our.keys() == ["sequences", "sequences_scores"]
    else:
        torch.testing.assert_close(our.scores, their.scores)
        assert our.keys() == ["sequences", "scores"]
    plain = ours.generate(**inputs, **{**options, "output_scores": False})
    assert plain.keys() == ["sequences"]


def test_texts_without_prompts(folder: Path) -> None:
    ours = GPT2LMHeadModel.from_pretrained(folder)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    options: dict[str, Any] = {"max_new_tokens": 5, "eos_token_id": 3, "pad_token_id": 3}
    for more in ({"bos_token_id": 7}, {"inputs": torch.tensor([[5, 6]])}):
        found, right = (model.generate(**options, **more) for model in (ours, theirs))
        assert_same_bits(found, right, "whole numbers")
    text = ours.generate(bos_token_id=7, search=Search(eos_token_id=3, max_new_tokens=5))
    begun = ours.generate(bos_token_id=7, **options)
    assert_same_bits(begun, torch.tensor([[7, *text[0][0].tokens]]), "whole numbers")
    ours.config.bos_token_id = 7
    assert_same_bits(ours.generate(**options), begun, "whole numbers")
    body = BertLMHeadModel(heedful.BertConfig(**SIZES, is_decoder=True))
    with pytest.raises(UserError, match="generate needs input_ids, or bos_token_id"):
        body.generate(max_new_tokens=2)
    with pytest.raises(UserError, match="two names of the prompts"):
        ours.generate(torch.tensor([[5]]), inputs=torch.tensor([[5]]))
    with pytest.raises(UserError, match="output_scores is not supported with repetition_penalty"):
        ours.generate(
            bos_token_id=7,
            repetition_penalty=1.5,
            return_dict_in_generate=True,
            output_scores=True,
        )
    with pytest.raises(UserError, match="return_dict_in_generate is not for a search"):
        ours.generate(  # type: ignore[call-overload]
            bos_token_id=7, search=Search(eos_token_id=3), return_dict_in_generate=True
        )


def test_defaults_are_attributes(folder: Path, tmp_path: Path) -> None:
    ours = GPT2LMHeadModel.from_pretrained(folder)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder)
    for name in (*GenerateOptions.__annotations__, "bos_token_id"):
        found, right = (getattr(model.generation_config, name) for model in (ours, theirs))
        assert found == right, name
    prompts = torch.tensor([[5, 6, 7]])
    for model in (ours, theirs.eval()):
        model.generation_config.pad_token_id = model.generation_config.eos_token_id = 3
        model.generation_config.max_new_tokens = 4
        model.generation_config.num_beams = 2
    assert_same_bits(ours.generate(prompts), theirs.generate(prompts), "whole numbers")
    ours.save_pretrained(tmp_path)
    again = GPT2LMHeadModel.from_pretrained(tmp_path)
    assert again.generation_config.num_beams == copy.deepcopy(again).generation_config.num_beams
    assert_same_bits(again.generate(prompts), theirs.generate(prompts), "whole numbers")
    with pytest.raises(UserError, match=r"generation_config 'num_beam' .did you mean 'num_beams'"):
        ours.generation_config.num_beam = 2
    with pytest.raises(AttributeError, match="generation_config has no num_beam"):
        assert ours.generation_config.num_beam
    assert not hasattr(ours.transformer, "generation_config")
