"""The GPU benchmarks run; here on the CPU, with small models."""

import pytest

pytest.importorskip("transformers", reason="the reference is in the dev extra")

from tests.golden.curves import START

from benchmarks import gpu, gpu_search


@pytest.mark.bf16
def test_the_table_has_a_row_for_each_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--device", "cpu", "--presets", "tiny", "--lengths", "16", "--batch-tokens", "64"]
    gpu.main([*words, "--batches", "2", "--laps", "1"])
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "tiny" in line]
    assert [row[2] for row in rows] == ["inference", "fine-tuning", "pre-training"]
    assert all(float(row[3].replace(",", "")) > 0 for row in rows)
    assert all(row[6].removesuffix(" |").endswith("%") for row in rows)


def test_operations_count_only_real_tokens() -> None:
    def case(length: int) -> gpu.Case:
        batches = gpu.batches_of(length, size=4, count=2)
        return gpu.Case(
            preset="tiny",
            length=length,
            batches=batches,
            device=gpu.torch.device("cpu"),
            compiled=False,
            attention_dropout=0.1,
        )

    short, long = case(16), case(64)
    assert short.operations("fine-tuning") == pytest.approx(3 * short.operations("inference"))
    assert short.operations("pre-training") > short.operations("fine-tuning")
    # 2 blocks of width 128, whose products have 12 * 128^2 weights.
    per_token = long.operations("inference") / long.tokens
    assert 2 * 24 * 128**2 < per_token < 2 * (24 * 128**2 + 4 * 128 * 64)
    assert all(batch.num_tokens <= batch.num_positions for batch in long.batches)


def test_both_libraries_give_the_same_translations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def sentences_of(language: str, count: int) -> list[str]:
        text = (START / f"data/translate.{language}").read_text(encoding="utf-8")
        return text.splitlines()[:count]

    monkeypatch.setattr(gpu_search, "trained_run", lambda name: START / "translate")
    monkeypatch.setattr(gpu_search, "sentences_of", sentences_of)
    words = ["--device", "cpu", "--size", "small", "--beam", "2", "--batch", "4"]
    gpu_search.main([*words, "--sentences", "10", "--laps", "1", "--precision", "fp32"])
    row = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert float(row[3].replace(",", "")) > 0
    assert row[6] == row[7]
    assert row[8] == "100% |"
