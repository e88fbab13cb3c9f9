from pathlib import Path

import numpy as np
import pytest
import torch
from tests.tiny_folders import write_folder

from heedful.batches import Example, Fitted
from heedful.reading import Record
from heedful.tasks.answers.replaced import decode
from heedful.tokens import load_encoder_tokenizer


@pytest.mark.parametrize("family", ["deberta", "deberta-v2", "electra"])
def test_words_are_slices_without_the_space_before_them(family: str, tmp_path: Path) -> None:
    write_folder(family, tmp_path / "model")
    tokenizer = load_encoder_tokenizer(tmp_path / "model")
    text = "the dog, a  cat"
    ids, offsets = tokenizer.pieces(text).ids, tokenizer.pieces(text).offsets
    count = len(ids)
    fitted = Fitted(
        pieces=[Example(ids=np.array(tokenizer.layout.ids(ids), dtype=np.int32))],
        tokens_total=count,
        tokens_used=count,
        kept=[(range(count),)],
    )
    logits = torch.full((count + 2,), -1.0)
    (comma,) = [number for number, span in enumerate(offsets) if text[slice(*span)] == ","]
    logits[1 + comma] = 1.0
    record = Record(text=text, text_pair=None, labels=None, source="text", line=1)
    answer = decode(record, fitted, [logits], tokenizer)
    assert [word.text for word in answer.words] == ["the", "dog", ",", "a", "cat"]
    assert [text[word.start : word.end] for word in answer.words] == [w.text for w in answer.words]
    assert [(word.start, word.text) for word in answer.replaced] == [(7, ",")]
