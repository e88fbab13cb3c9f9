"""The reference and the vocabularies that the tokenizers are tested against."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import SPECIAL, byte_level_tokenizer
from tests.tokens.reference import unpacked

from heedful.errors import UserError
from heedful.sources import resolve
from heedful.tokens import BertTokenizer, RobertaTokenizer, Vocabulary

Compiled = Any
"""A ``tokenizers.Tokenizer``, which has no types of its own."""


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Provide the folder of the real uncased BERT."""
    try:
        return resolve("minilm")
    except UserError as error:
        pytest.skip(f"needs the installed model package: {error}")


@pytest.fixture(scope="session")
def uncased(minilm: Path) -> BertTokenizer:
    return BertTokenizer.from_pretrained(minilm)


@pytest.fixture(scope="session")
def compiled() -> Callable[..., Compiled]:
    """Provide a function that makes the reference's BERT tokenizer of a list of tokens."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs the reference tokenizer")

    def make(
        tokens: Sequence[str],
        *,
        do_lower_case: bool,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
    ) -> Compiled:
        ids = {token: at for at, token in enumerate(tokens)}
        made = tokenizers.Tokenizer(tokenizers.models.WordPiece(ids, unk_token="[UNK]"))
        made.normalizer = tokenizers.normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=tokenize_chinese_chars,
            strip_accents=strip_accents,
            lowercase=do_lower_case,
        )
        made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        made.add_special_tokens(SPECIAL)
        return made

    return make


@pytest.fixture(scope="session")
def reference(minilm: Path) -> Any:
    """Provide the reference's whole tokenizer of the real BERT."""
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    transformers.logging.set_verbosity_error()
    return transformers.BertTokenizerFast.from_pretrained(minilm)


@pytest.fixture(scope="session")
def toy() -> BertTokenizer:
    """Provide an uncased tokenizer of few tokens."""
    words = ["hello", "world", "un", "##aff", "##able", "cafe", "a", "##a", ",", ".", "[", "]"]
    return BertTokenizer(Vocabulary([*SPECIAL, *words]), model_max_length=16)


@pytest.fixture(scope="session")
def roberta_folder(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with the vocabulary of the real RoBERTa and nothing else."""
    return unpacked(data_folder / "tokenizers/roberta-base", tmp_path_factory.mktemp("roberta"))


@pytest.fixture(scope="session")
def roberta(roberta_folder: Path) -> RobertaTokenizer:
    return RobertaTokenizer.from_pretrained(roberta_folder)


@pytest.fixture(scope="session")
def roberta_reference(roberta_folder: Path) -> Any:
    """Provide the reference's whole tokenizer of the real RoBERTa."""
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    transformers.logging.set_verbosity_error()
    return transformers.RobertaTokenizerFast.from_pretrained(roberta_folder)


@pytest.fixture(scope="session")
def toy_roberta() -> RobertaTokenizer:
    return byte_level_tokenizer()
