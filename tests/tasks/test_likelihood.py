"""Pseudo-log-likelihood against the reference, one token at a time."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests import tiny
from tests.tiny import SPECIAL

from heedful import BertConfig, BertForMaskedLM, BertForPreTraining, BertTokenizer, UserError
from heedful.batches.windows import window_starts
from heedful.cli import run
from heedful.commands.score import texts_of
from heedful.reading import Record
from heedful.tasks.likelihood import Likelihood, likelihoods
from heedful.tasks.pretrain import Pretrain
from heedful.tokens.vocabulary import Vocabulary

TOKENIZER = BertTokenizer(Vocabulary([*SPECIAL, *"abcdefghij"]))
CONFIG = BertConfig(**{**tiny.SIZES, "vocab_size": 15, "max_position_embeddings": 40})
TASK = Pretrain.from_training_data(tiny.recipe("pretrain", objective="mlm"))


def scored(
    model: torch.nn.Module,
    texts: list[str],
    *,
    task: Pretrain = TASK,
    max_length: int = 40,
    batch_tokens: int = 50,
) -> Iterator[Likelihood]:
    return likelihoods(
        [(text, f"text {number}") for number, text in enumerate(texts, start=1)],
        model,
        task,
        TOKENIZER,
        max_length=max_length,
        batch_tokens=batch_tokens,
        batch_size=256,
        device=torch.device("cpu"),
    )


@pytest.fixture
def model() -> BertForMaskedLM:
    torch.manual_seed(0)
    return BertForMaskedLM(CONFIG).eval()


def by_hand(model: BertForMaskedLM, ids: list[int], at: int) -> float:
    """Return the log probability of a token by the reference's model, given the others."""
    import transformers

    theirs = transformers.BertForMaskedLM(transformers.BertConfig(**model.config.to_dict())).eval()
    theirs.load_state_dict(model.state_dict(), strict=False)
    row = torch.tensor([[2, *ids, 3]])
    row[0, at + 1] = 4
    with torch.no_grad():
        logits = theirs(row).logits[0, at + 1]
    return float(logits.log_softmax(-1)[ids[at]])


def test_each_token_is_scored_given_all_others(model: BertForMaskedLM) -> None:
    texts = ["a b c d", "j", "e f g h i j a b c d e f g h"]
    for text, found in zip(texts, scored(model, texts), strict=True):
        (ids,) = TOKENIZER.encode_batch([text])
        assert found.tokens == tuple(text.split())
        expected = [by_hand(model, ids, at) for at in range(len(ids))]
        assert found.log_probabilities == pytest.approx(expected, rel=1e-4)
        assert found.total == pytest.approx(sum(expected), rel=1e-4)
        mean = torch.tensor(expected).mean()
        assert found.perplexity == pytest.approx(float((-mean).exp()), rel=1e-4)


def test_a_long_text_is_scored_in_windows(model: BertForMaskedLM) -> None:
    text = " ".join("abcdefghij" * 3)
    (ids,) = TOKENIZER.encode_batch([text])
    (found,) = scored(model, [text], max_length=14)
    starts = window_starts(30, 12, 6)
    assert len(starts) > 2
    for at, value in enumerate(found.log_probabilities):
        around = {start: min(at - start, start + 11 - at) for start in starts}
        start = max(starts, key=lambda start: around[start])
        assert around[start] >= min(at, 29 - at, 2)
        near = [begin for begin in starts if around[begin] == around[start]]
        values = [by_hand(model, ids[begin : begin + 12], at - begin) for begin in near]
        assert any(value == pytest.approx(one, rel=1e-4) for one in values)


def test_a_model_of_pairs_scores_too() -> None:
    torch.manual_seed(0)
    pairs = BertForPreTraining(CONFIG).eval()
    task = Pretrain.from_training_data(tiny.recipe("pretrain", objective="mlm+nsp"))
    (found,) = scored(pairs, ["a b"], task=task)
    assert len(found.log_probabilities) == 2


def test_neighbours_change_nothing(model: BertForMaskedLM) -> None:
    alone = [next(scored(model, [text])) for text in ("a b c", "d")]
    together = list(scored(model, ["a b c", "d"] * 50, batch_tokens=1000))[:2]
    for one, other in zip(alone, together, strict=True):
        assert one.log_probabilities == pytest.approx(other.log_probabilities, rel=1e-5)


def test_empty_texts_are_named(model: BertForMaskedLM) -> None:
    with pytest.raises(UserError, match=r"^text 2: the text has no token"):
        list(scored(model, ["a", " "]))


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a run that learnt one sentence."""
    folder = tmp_path_factory.mktemp("run")
    text = folder / "a.txt"
    text.write_text("the sky is blue.\n\n" * 60)
    words, out = folder / "words", folder / "run"
    assert run(["vocabulary", str(text), "--size", "60", "--out", str(words)]) == 0
    more = ["--train", str(text), "--vocabulary", str(words), "--out", str(out), "--steps", "30"]
    more += ["--preset", "tiny", "--objective", "mlm", "--max-length", "16", "--dropout", "0"]
    more += ["--learning-rate", "2e-3", "--batch-size", "8"]
    assert run(["train", "pretrain", *more]) == 0
    return out


def test_lists_are_ranked_anew(
    masked_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "n.jsonl"
    lists = [
        {"id": 1, "hypotheses": [{"text": "is the blue sky.", "n": [2]}, "the sky is blue."]},
        {
            "hypotheses": [
                {"text": "the sky is blue.", "score": 0},
                {"text": "sky the is.", "score": 1000, "n": 3, "total": 4},
            ]
        },
    ]
    path.write_text("".join(json.dumps(item) + "\n" for item in lists))
    assert run(["score", str(masked_run), "--n-best", str(path)]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["id"] == 1
    assert [row["text"] for row in first["hypotheses"]] == ["the sky is blue.", "is the blue sky."]
    assert [row["score"] for row in second["hypotheses"]] == [1000, 0]
    assert [row.get("n") for row in first["hypotheses"]] == [None, [2]]
    assert second["hypotheses"][0]["n"] == 3
    for row in first["hypotheses"] + second["hypotheses"]:
        assert row["total"] == pytest.approx(row["score"] + row["log_likelihood"], abs=1e-5)
    assert run(["score", str(masked_run), "--n-best", str(path), "--weight", "0"]) == 0
    first, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["hypotheses"][0]["total"] == 0
    path.write_bytes('{"id": "句", "hypotheses": ["the sky"]}'.encode("gb18030"))
    assert run(["score", str(masked_run), "--n-best", str(path), "--encoding", "gb18030"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "句"


@pytest.mark.parametrize(
    ("option", "line", "where"),
    [
        ("--n-best", '{"hypotheses": ["the sky", "%s"]}', ", hypothesis 2"),
        ("--input", '{"text": "%s"}', ""),
    ],
)
def test_a_text_without_tokens_is_named(
    masked_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    option: str,
    line: str,
    where: str,
) -> None:
    path = tmp_path / "n.jsonl"
    path.write_text(f"{line % 'blue'}\n\n{line % chr(0x200B)}\n", "utf-8")
    assert run(["score", str(masked_run), option, str(path)]) == 2
    assert capsys.readouterr().err == (
        f"heedful: {path}, line 3{where}: the text has no tokens, so there is nothing to score\n"
    )


def test_texts_of_a_file_are_scored(
    masked_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("the sky is blue.\nblue\n")
    assert run(["score", str(masked_run), "--input", str(path), "--all-scores"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert [token for token, _ in first["log_probabilities"]] == ["the", "sky", "is", "blue", "."]
    total = sum(value for _, value in first["log_probabilities"])
    assert first["log_likelihood"] == pytest.approx(total, abs=1e-4)
    assert second["tokens_total"] == second["tokens_used"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", "3"], "--beam has no effect on the likelihood of a text: leave it out"),
        (["--top", "3"], "--top has no effect"),
        (["--long-text", "refuse"], "--long-text has no effect"),
        (["--label", "nope"], "--label has no effect on the likelihood of a text"),
        (["--text-pair", "nope"], "--text-pair has no effect"),
        (["--text", "nope", "--n-best", "a.jsonl"], "column options are for --input"),
    ],
)
def test_an_option_without_effect_is_refused(
    masked_run: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    texts = [] if "--n-best" in options else ["the sky"]
    assert run(["score", str(masked_run), *texts, *options]) == 2
    assert capsys.readouterr().err.startswith(f"heedful: {message}")


def test_options_of_computing_change_no_score(
    masked_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--precision", "fp32", "--device", "cpu", "--batch-size", "2"]
    for more in ([], [*options, "--batch-tokens", "40", "--max-length", "12"]):
        assert run(["score", str(masked_run), "the sky is blue", *more]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["log_likelihood"] == pytest.approx(second["log_likelihood"], rel=1e-2)


def test_only_a_pre_trained_run_scores(
    colours: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    more = ["--train", str(colours), "--model", str(tiny_model), "--steps", "1"]
    assert run(["train", "classify", *more, "--out", str(out)]) == 0
    capsys.readouterr()
    assert run(["score", str(out), "a"]) == 2
    assert (
        "this is a classify run; only a pretrain run, or one that continues"
        in capsys.readouterr().err
    )


def test_a_blank_line_of_a_file_is_named() -> None:
    records = [
        Record(text=text, text_pair=None, labels=None, source="a.txt", line=line)
        for line, text in enumerate(["a b", " "], start=1)
    ]
    texts = texts_of(records)
    assert next(texts) == ("a b", "a.txt, line 1")
    with pytest.raises(UserError, match=r"^a\.txt, line 2: empty; there is nothing to score$"):
        next(texts)
