"""The objective interface: the methods that pre-training calls for each objective.

An objective is a small frozen dataclass that is independent of the settings. ``__init__.py`` lists
them.

Shapes: B sequences of a batch, K scores of a sequence.
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
from heedful.item_results import AnyItemScorer
from heedful.task import Answer, Forward, Scores
from heedful.tasks.objectives.inference import Inference
from heedful.tasks.objectives.source import Source
from heedful.tokens import Tokenizer


class Objective(Protocol):
    """A pre-training objective on plain text."""

    @property
    def source(self) -> Source:
        """Loads or creates the model."""

    @property
    def inference(self) -> Inference:
        """The inference interface of a finished run."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that can select the best step; the default comes first."""

    @property
    def pairs_documents(self) -> bool:
        """Whether it makes pairs from two documents, and so needs at least two."""

    @property
    def masks_tokens(self) -> bool:
        """Whether it masks tokens, and so needs a mask token and a mask rule."""

    @property
    def mask_share(self) -> float:
        """Default share of the tokens to predict."""

    # Learning.

    def sequences(
        self, corpus: Documents, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut the sequences of an epoch from a corpus; all draws depend on seed and epoch."""

    def warning(self, labels: NDArray[np.float64]) -> str | None:
        """Return a one-line warning if the labels of the first sequences look wrong, else None.

        Raises:
            UserError: there is no sequence.
        """

    def training_batch(
        self, examples: Sequence[Example], tokenizer: Tokenizer, rule: MaskRule | None, draw: Draw
    ) -> Batch:
        """Pad the examples, and add the batch's ``targets``.

        Args:
            examples: sequences.
            tokenizer: the model's tokenizer.
            rule: how to mask tokens; None if the objective masks none.
            draw: seeds the random choices.
        """

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the sum of each loss term; their means add up. Shape (number of losses,)."""

    def loss_divisors(self, batch: Batch) -> Tensor:
        """Return the divisor of each sum. Shape (number of losses,)."""

    # Scores.

    def score(self, model: Forward, batch: Batch) -> Tensor:
        """Return the K scores of each sequence. Shape (B, K).

        If the objective fills masks, the first score is the summed loss of the masked tokens.
        """

    def scored(self, numbers: Sequence[float], text: str, fitted: Fitted[Example]) -> Answer:
        """Wrap the scores of a sequence as an answer.

        Args:
            numbers: the sequence's row of `score`.
            text: the sequence as text, without masks.
            fitted: the sequence.
        """

    def scores(self) -> Scores[Any, Any]:
        """Return a new, empty accumulator of scores."""

    def item_scorer(self) -> AnyItemScorer:
        """Return the scorer of sequences."""

    def model_card(self, masked: str) -> str:
        """Describe the run for its model card, in a sentence or two.

        Args:
            masked: the unit of masking, such as ``tokens``.
        """
