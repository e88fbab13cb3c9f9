"""The vocabularies that each family of models from scratch accepts."""

from pathlib import Path

import pytest
from tests.tiny_folders import ENCODERS, TOKENIZERS, WRITERS, write_folder

import heedful
from heedful.errors import UserError
from heedful.tasks.objectives.source import check_vocabulary
from heedful.tokens import Tokenizer, load_encoder_tokenizer

PADS_WITH_1 = {"roberta", "mpnet", "xlm-roberta"}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tokenizer]:
    """Provide a tokenizer of each family."""
    folder = tmp_path_factory.mktemp("models")
    for family in ENCODERS:
        write_folder(family, folder / family)
    return {family: load_encoder_tokenizer(folder / family) for family in ENCODERS}


def complaint(arch: str, tokenizer: Tokenizer) -> str | None:
    """Return why a vocabulary called "words" does not fit a family; None if it does."""
    try:
        check_vocabulary(arch, "words", tokenizer)
    except UserError as error:
        return str(error)
    return None


@pytest.mark.parametrize("arch", ENCODERS)
def test_each_family_has_vocabularies_that_fit(arch: str, tokenizers: dict[str, Tokenizer]) -> None:
    complaints = {family: complaint(arch, each) for family, each in tokenizers.items()}
    fitting = {family for family, said in complaints.items() if said is None}
    special = {"xlnet": {"xlnet"}, "gpt2": {*ENCODERS}, "mpnet": PADS_WITH_1}
    special |= dict.fromkeys(("roberta", "xlm-roberta"), {*ENCODERS} - {"xlnet", "gpt2"})
    assert fitting == special.get(arch, {*ENCODERS} - {"xlnet"})
    for said in filter(None, complaints.values()):
        assert said.startswith("--vocabulary words")
        assert f"--arch {arch}" in said


def test_published_vocabularies_fit_their_families(data_folder: Path) -> None:
    for name, arch in {"albert": "albert", "xlnet": "xlnet", "xlnet-chinese": "xlnet"}.items():
        tokenizer = load_encoder_tokenizer(data_folder / "tokenizers" / name)
        assert complaint(arch, tokenizer) is None
        assert complaint("xlnet" if arch == "albert" else "bert", tokenizer) is not None


@pytest.mark.parametrize(
    ("arch", "objective", "vocabulary", "message"),
    [
        (
            "xlnet",
            "plm",
            "xlm-roberta",
            "does not fit arch xlnet, whose texts end with the class",
        ),
        ("xlnet", "plm", "bert", "does not fit arch xlnet, whose texts end with the class"),
        ("bert", "mlm", "xlnet", "is for XLNet, whose texts end with the class token"),
        ("mpnet", "mlm", "bert", "does not fit arch mpnet, whose padding token has the id 1"),
        ("roberta", "clm", "gpt2", "its padding is also the token that begins a text"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_start(
    arch: str, objective: str, vocabulary: str, message: str, tmp_path: Path
) -> None:
    words, text = tmp_path / "words", tmp_path / "text.txt"
    words.mkdir()
    WRITERS[TOKENIZERS[vocabulary]](words)
    text.write_text("the cat.\n\nthe dog.\n", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        heedful.train(
            "pretrain",
            train=text,
            arch=arch,
            objective=objective,
            vocabulary=str(words),
            preset="mini",
            out=tmp_path / "run",
            say=lambda line: None,
        )
    assert not (tmp_path / "run").exists()
