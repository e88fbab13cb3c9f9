"""Words in any order: permutation language modelling (Yang et al. 2019, sections 2.2 to 2.4).

A sequence is running text. It is read as two segments, the second with the memory of the first
(section 2.4), which no gradient goes back into; so what a step learns from depends on no step
before it. In each segment spans of tokens are predicted, one after the other in a random order.

Shapes: B sequences of a batch, T their length, N predicted tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example
from heedful.batches.corpus import Documents
from heedful.batches.masking import MaskRule
from heedful.batches.permuting import hidden_by, turns
from heedful.batches.segments import IN_WORD
from heedful.batches.sentence_pairs import Frame, single_texts
from heedful.host import on_host, send
from heedful.judging import AnyJudge
from heedful.task import Forward, Scores
from heedful.tasks.answers.sequences import sequence_scores
from heedful.tasks.judges import texts as judges
from heedful.tasks.objectives import hidden
from heedful.tasks.objectives.asked import Blanks
from heedful.tasks.objectives.source import OneModel
from heedful.tokens import Tokenizer

LEAST_SEGMENT = 8
"""Tokens of a segment below which a sequence is read as one."""

_BY_TOKEN = ("input_ids", "attention_mask", "token_type_ids")
"""Inputs with a column for each token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PermutedWords:
    """Which words stand where, seeing some of the others; see ``Objective``."""

    segment: int = 64
    """Tokens of the first segment: the same for all sequences, whatever stands beside them."""

    source: ClassVar[OneModel] = OneModel("permuted_lm")
    asked: ClassVar[Blanks] = Blanks(pairs=False)
    hides: ClassVar[bool] = True
    mask_share: ClassVar[float] = 1 / 6
    metrics: ClassVar[tuple[str, ...]] = ("masked_accuracy",)
    mixes_documents: ClassVar[bool] = False

    doubt = hidden.no_doubt
    count = hidden.count
    scored = hidden.scored

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut running text of one document each."""
        return single_texts(corpus, frame, seed=seed, epoch=epoch)

    def learn(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Draw which tokens are predicted, and in which order.

        They stand at ``positions`` of the inputs, in the batch laid out as one row; ``perm_mask``
        hides them. The targets are ``tokens``, (N,).
        """
        assert rule is not None
        batch = hidden.pad(examples, tokenizer)
        ids = batch.inputs["input_ids"]
        drawn = np.zeros(ids.shape, np.int64)
        for row, example, index in zip(drawn, examples, draw.rows, strict=True):
            row[: len(example.ids)] = turns(
                ~rule.special[example.ids & ~IN_WORD],
                rule.share,
                seed=draw.seed,
                epoch=draw.epoch,
                index=int(index),
            )
        order = torch.from_numpy(drawn)
        positions = order.flatten().nonzero().squeeze(1)  # (N,)
        inputs = {"perm_mask": hidden_by(order), "positions": positions}
        targets = {"tokens": ids.flatten()[positions]}
        return replace(hidden.with_inputs(batch, inputs), targets=targets)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of the losses of predicted tokens. Shape (1,)."""
        sums = [
            losses.cross_entropy(logits, part.targets["tokens"])[0]
            for logits, part in _read(forward, batch, self.segment)
        ]
        return torch.stack(sums).sum(0, keepdim=True)

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Return the sum of the losses, the tokens told right, those predicted. Shape (B, 3)."""
        told = [hidden.told(logits, part) for logits, part in _read(model, batch, self.segment)]
        return torch.stack(told).sum(0)

    def scores(self) -> Scores[Any, Any]:
        """Return empty scores."""
        return sequence_scores()

    def judge(self) -> AnyJudge:
        """Return what judges sequences."""
        return judges.sequences()

    def card(self, masked: str) -> str:
        """Say what a run does."""
        return "Says which words stand behind [MASK]; learnt by predicting words in any order."


def _read(forward: Forward, batch: Batch, segment: int) -> Iterator[tuple[Tensor, Batch]]:
    """Read each sequence as two segments, and yield what is told of each.

    Args:
        forward: the model.
        batch: the sequences.
        segment: tokens of the first.

    Yields:
        Logits of the tokens that are predicted in a segment, shape (N', V), and the batch with the
        ``positions`` and ``tokens`` of these alone.
    """
    inputs = batch.inputs
    length, positions = inputs["input_ids"].shape[1], inputs["positions"]
    if segment < LEAST_SEGMENT or length <= segment:
        yield forward(**inputs).logits, batch
        return
    known = on_host(positions)
    rows, places = known // length, known % length
    mems = None
    for start, stop in ((0, segment), (segment, length)):
        of_segment = {
            name: value[:, start:stop] for name, value in inputs.items() if name in _BY_TOKEN
        }
        (inside,) = ((places >= start) & (places < stop)).nonzero(as_tuple=True)
        predicted = rows[inside] * (stop - start) + places[inside] - start
        output = forward(
            **of_segment,
            perm_mask=inputs["perm_mask"][:, start:stop, start:stop],
            positions=send(predicted, positions.device),
            mems=mems,
            use_mems=stop < length,
        )
        mems = output.mems
        inside = send(inside, positions.device)
        part = hidden.with_inputs(batch, {"positions": positions[inside]})
        yield output.logits, replace(part, targets={"tokens": batch.targets["tokens"][inside]})
