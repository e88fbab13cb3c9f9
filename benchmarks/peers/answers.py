"""Extractive question answering, as in the reference's own example.

Pairs of question and context are split into windows of 384 tokens with a stride of 128. For each
question, the 20 likeliest starts are combined with the 20 likeliest ends, up to 30 tokens apart.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arm_process import Trial
from benchmarks.peers.engines import ENGINES, load
from benchmarks.peers.texts import BATCH, compute
from benchmarks.row import Arm

if TYPE_CHECKING:
    import numpy as np

LENGTH, STRIDE, LIKELIEST, LONGEST = 384, 128, 20, 30
Question = tuple[str, str]
"""A question and its context."""


def run_laps(trial: Trial, answers_of: Callable[[list[Question]], list[str]]) -> list[str]:
    """Run the laps with a function from questions to answers, and return all answers."""
    parts = [[(one[0], one[1]) for one in part] for part in trial.read("questions.json")]
    answers_of(parts[0][:16])
    return [answer for questions in trial.laps(parts) for answer in answers_of(questions)]


def best_span(
    starts: "np.ndarray[Any, Any]", ends: "np.ndarray[Any, Any]", inside: Sequence[bool]
) -> tuple[float, int, int] | None:
    """Return the score, the first token and the last token of the best answer in a window."""
    best = None
    for start in starts.argsort()[-1 : -LIKELIEST - 1 : -1].tolist():
        for end in ends.argsort()[-1 : -LIKELIEST - 1 : -1].tolist():
            if not (start <= end < min(start + LONGEST, len(inside))):
                continue
            if not (inside[start] and inside[end]):
                continue
            score = float(starts[start] + ends[end])
            if best is None or score > best[0]:
                best = (score, start, end)
    return best


def transformers(trial: Trial) -> list[str]:
    """Answer with the reference's loop: in fp32, with batches in the order of the questions."""
    import torch
    from transformers import BertForQuestionAnswering, BertTokenizerFast

    torch.set_num_threads(trial.threads)
    folder = trial.read("model.json")["folder"]
    model = BertForQuestionAnswering.from_pretrained(folder).eval()
    tokenizer = BertTokenizerFast.from_pretrained(folder)

    @torch.inference_mode()
    def answers_of(questions: list[Question]) -> list[str]:
        answers = []
        for start in range(0, len(questions), BATCH):
            batch = questions[start : start + BATCH]
            encoded = tokenizer(
                [question for question, _ in batch],
                [context for _, context in batch],
                truncation="only_second",
                max_length=LENGTH,
                stride=STRIDE,
                return_overflowing_tokens=True,
                return_offsets_mapping=True,
                padding=True,
                return_tensors="pt",
            )
            owners = encoded.pop("overflow_to_sample_mapping").tolist()
            offsets = encoded.pop("offset_mapping").tolist()
            output = model(**encoded)
            windows = [
                (owner, encoded.sequence_ids(at), offsets[at], logits)
                for at, (owner, *logits) in enumerate(
                    zip(owners, output.start_logits.numpy(), output.end_logits.numpy(), strict=True)
                )
            ]
            answers += best_of_windows(batch, windows)
        return answers

    return run_laps(trial, answers_of)


def best_of_windows(questions: Sequence[Question], windows: Sequence[Any]) -> list[str]:
    """Return the best answer of each question over its windows.

    Args:
        questions: The questions with their contexts.
        windows: For each window: the index of its question; for each token, whether it belongs to
            the question (0) or the context (1); the tokens' offsets in the text; and the logits.
    """
    best = [(-float("inf"), "")] * len(questions)
    for owner, sequences, offsets, (starts, ends) in windows:
        span = best_span(starts, ends, [sequence == 1 for sequence in sequences])
        if span is not None and span[0] > best[owner][0]:
            left, right = offsets[span[1]][0], offsets[span[2]][1]
            best[owner] = (span[0], questions[owner][1][left:right])
    return [answer for _, answer in best]


def engine_arm(name: str) -> Callable[[Trial], list[str]]:
    """Return an arm that answers with an engine, windows sorted by length."""

    def run(trial: Trial) -> list[str]:
        folder = Path(trial.read("model.json")["folder"])
        cut: dict[str, Any] = {"longest": LENGTH, "stride": STRIDE, "strategy": "only_second"}
        engine, tokenizer = load(name, folder, "answer", trial.threads, **cut)

        def answers_of(questions: list[Question]) -> list[str]:
            encodings = tokenizer.encode_batch(questions)
            owners, windows = [], []
            for owner, encoding in enumerate(encodings):
                for window in (encoding, *encoding.overflowing):
                    owners.append(owner)
                    windows.append(window)
            outputs = compute(engine, windows)
            facts = [
                (
                    owner,
                    window.sequence_ids,
                    window.offsets,
                    [row[: len(window.ids)] for row in output],
                )
                for owner, window, output in zip(owners, windows, outputs, strict=True)
            ]
            return best_of_windows(questions, facts)

        return run_laps(trial, answers_of)

    return run


PEERS = {
    "transformers": Arm(run=transformers, format="fp32"),
    **{
        name: Arm(run=engine_arm(name), format=number_format)
        for name, number_format in ENGINES.items()
        if name != "transformers fp32"
    },
}
