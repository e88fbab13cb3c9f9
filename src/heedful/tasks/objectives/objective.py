"""What an objective is: what pre-training asks of each thing that can be learnt from running text.

An objective is a small frozen dataclass that knows no settings. The table of them is in
``__init__.py``.

Shapes: B sequences of a batch, K numbers of a sequence.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.corpus import Documents
from heedful.batches.masking import MaskRule
from heedful.batches.sentence_pairs import Frame
from heedful.judging import AnyJudge
from heedful.task import Answer, Forward, Scores
from heedful.tasks.objectives.asked import Asked
from heedful.tasks.objectives.source import Source
from heedful.tokens import Tokenizer


class Objective(Protocol):
    """One thing that can be learnt from running text."""

    @property
    def source(self) -> Source:
        """Where its model comes from."""

    @property
    def asked(self) -> Asked:
        """What a finished run is asked, and how it answers."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The scores that can pick the best step; the first does unless told otherwise."""

    @property
    def mixes_documents(self) -> bool:
        """Whether it makes pairs of two documents, and so needs as many."""

    @property
    def hides(self) -> bool:
        """Whether it hides tokens, and so needs a vocabulary with a mask, and a rule."""

    @property
    def mask_share(self) -> float:
        """Share of the tokens to predict unless a user says otherwise."""

    # Learning.

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut the sequences of an epoch from a corpus; all draws depend on seed and epoch."""

    def doubt(self, labels: NDArray[np.float64]) -> str | None:
        """Say in a line what is odd about the labels of the first sequences, if anything."""

    def learn(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Pad, and say what is to be told: the batch's ``targets``.

        Args:
            examples: sequences.
            tokenizer: the model's tokenizer.
            rule: how tokens are hidden; None where none are.
            draw: what the draws depend on.
        """

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of each loss; their means add up. Shape (number of losses,)."""

    def count(self, batch: Batch) -> Tensor:
        """Return what each sum is divided by. Shape (number of losses,)."""

    # Scores.

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Return the K numbers of each sequence that scores are made of. Shape (B, K).

        Where a run fills in masks, the first is the sum of the losses of hidden tokens.
        """

    def scored(self, numbers: Sequence[float], text: str, fitted: Fitted[Example]) -> Answer:
        """Return what a sequence's numbers say.

        Args:
            numbers: the sequence's row of `score`.
            text: the sequence as a text, nothing hidden.
            fitted: the sequence.
        """

    def scores(self) -> Scores[Any, Any]:
        """Return empty scores."""

    def judge(self) -> AnyJudge:
        """Return what judges sequences, item by item."""

    def card(self, masked: str) -> str:
        """Say what a run does, in a sentence or two for its model card.

        Args:
            masked: what was masked, such as ``tokens``.
        """
