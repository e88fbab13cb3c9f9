"""GPT-2 reads what the reference publishes, and writes as it does."""

import gzip
import shutil
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.parity.families import pair_of_models

import heedful
from heedful.decoding.search import Search
from heedful.models import GPT2LMHeadModel


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, data_folder: Path) -> Path:
    """Give the folder of a tiny GPT-2 as the reference writes it, unpacked."""
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
