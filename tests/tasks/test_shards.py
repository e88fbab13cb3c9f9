"""Shards to sequences: every document once, with any tokenizing process and any start."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.tiny import SPECIAL

from heedful import BertTokenizer
from heedful.batches import corpus as corpus_module
from heedful.batches.background import Background
from heedful.batches.packed import Packed
from heedful.batches.sentence_pairs import Frame
from heedful.errors import UserError
from heedful.models import DebertaV2Config, DebertaV2ForMaskedLM
from heedful.task import Start
from heedful.tasks.objectives import OBJECTIVES
from heedful.tasks.pretrain import Pretrain
from heedful.tasks.shards import ShardedText
from heedful.tokens.vocabulary import Vocabulary

WORDS = [f"w{number}" for number in range(60)]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "_CHUNK_CHARACTERS", 30)


def sharded(folder: Path, objective: str, documents: int = 7) -> ShardedText:
    """Write two shards of documents of one sentence each."""
    for shard in range(2):
        words = WORDS[shard * 30 :]
        texts = [" ".join(words[number * 3 : number * 3 + 6]) for number in range(documents)]
        (folder / f"{shard}.txt").write_text("\n\n".join(texts) + "\n")
    tokenizer = BertTokenizer(Vocabulary([*SPECIAL, *WORDS]))
    return ShardedText(
        shards=(folder / "0.txt", folder / "1.txt"),
        layout="blank-line",
        sentences="punctuation",
        tokenizer=tokenizer,
        objective=OBJECTIVES[objective],
        frame=Frame(layout=tokenizer.layout, max_length=16),
        seed=3,
    )


def rows(parts: list[Packed]) -> list[list[list[int]]]:
    return [[example.ids.tolist() for example in packed] for packed in parts]


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_chunks_can_be_read_from_any_on(tmp_path: Path, objective: str) -> None:
    text = sharded(tmp_path, objective)
    for shard in (0, 1):
        whole = rows(list(text.chunks(shard, 0, 0)))
        assert len(whole) > 2
        for first in range(len(whole) + 1):
            assert rows(list(text.chunks(shard, 0, first))) == whole[first:]
        assert rows(list(text.chunks(shard, 1, 0))) != whole


@pytest.mark.parametrize("convolves", [False, True])
def test_texts_that_a_convolution_would_mix_stand_alone(tmp_path: Path, convolves: bool) -> None:
    text = sharded(tmp_path, "mlm")
    config = DebertaV2Config(
        vocab_size=len(text.tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        conv_kernel_size=3 if convolves else 0,
    )
    model = DebertaV2ForMaskedLM(config)
    task = Pretrain(
        preset=None,
        positions=None,
        position_type="absolute",
        objective="mlm",
        mask_share=0.15,
        masking="token",
        max_predictions=None,
        documents="blank-line",
        sentences="punctuation",
    )
    documents = next(text.tokenized(text.shards[0]))
    start = Start(tokenizer=text.tokenizer, model=model, max_length=40)
    examples = task.sequences(documents, start, seed=0, epoch=0)
    texts = [example.ids.tolist().count(text.tokenizer.cls_token_id) for example in examples]
    assert (max(texts) == 1) == convolves


def test_no_token_is_lost(tmp_path: Path) -> None:
    text = sharded(tmp_path, "mlm")
    ids = [one for part in rows(list(text.chunks(0, 0, 0))) for row in part for one in row]
    expected = text.tokenizer.encode_batch(text.shards[0].read_text().split("\n\n"))
    special = set(text.tokenizer.all_special_ids)
    assert [one for one in ids if one not in special] == [one for row in expected for one in row]


def test_pairs_have_a_second_document(tmp_path: Path) -> None:
    text = sharded(tmp_path, "mlm+nsp", documents=5)
    assert all(len(chunk) >= 2 for chunk in text.texts(text.shards[0]))
    text.shards[1].write_text("one document alone\n")
    with pytest.raises(UserError, match=r"1\.txt: only one document"):
        list(text.chunks(1, 0, 0))


def test_tokens_are_kept_once_a_shard_was_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = sharded(tmp_path, "mlm")
    whole = rows(list(plain.chunks(0, 0, 0)))
    text = replace(plain, cache=tmp_path / "cache")
    half = text.chunks(0, 0, 0)
    next(half)
    half.close()
    assert list((tmp_path / "cache").iterdir()) == []
    assert rows(list(text.chunks(0, 0, 1))) == whole[1:]  # what it skips is kept, too
    monkeypatch.setattr("heedful.tasks.shards.tokenize_texts", None)  # it would fail
    assert rows(list(text.chunks(0, 0, 0))) == whole
    assert rows(list(text.chunks(0, 0, 2))) == whole[2:]
    monkeypatch.undo()
    monkeypatch.setattr(corpus_module, "_CHUNK_CHARACTERS", 30)
    (kept,) = (tmp_path / "cache").iterdir()
    changed = plain.shards[0].read_text().replace("w1 ", "w2 ")
    plain.shards[0].write_text(changed)
    assert rows(list(text.chunks(0, 0, 0))) == rows(list(plain.chunks(0, 0, 0))) != whole
    assert len(list((tmp_path / "cache").iterdir())) == 2
    kept.write_bytes(kept.read_bytes()[:-20])
    plain.shards[0].write_text(changed.replace("w0 w2 ", "w0 w1 "))
    with pytest.raises(UserError, match="damaged"):
        list(text.chunks(0, 0, 0))


def test_other_processes_read_the_same(tmp_path: Path) -> None:
    text = replace(sharded(tmp_path, "mlm+nsp", documents=4), cache=tmp_path / "cache")
    (tmp_path / "1.txt").write_text("one document alone\n")
    expected = rows(list(text.chunks(0, 2, 0)))  # kept, so its chunks are those of this process
    background = Background(text.chunks, 1)
    assert rows(list(background.chunks(0, 2, 0))) == expected
    first = background.chunks(0, 2, 1)
    second = background.chunks(0, 2, 0)
    assert rows([next(second), next(first)]) == [expected[0], expected[1]]
    with pytest.raises(UserError, match=r"1\.txt: only one document"):
        list(background.chunks(1, 0, 0))
