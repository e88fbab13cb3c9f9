"""What an objective is: what pre-training asks of each thing that can be learnt from running text.

An objective is a small frozen dataclass that knows no settings. The table of them is in
``__init__.py``.

Shapes: B sequences of a batch, K numbers of a sequence.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from heedful.aim import Aim, Computed
from heedful.batches import Batch, Draw, Example, Fitted, Store
from heedful.batches.corpus import Corpus
from heedful.batches.masking import MaskRule
from heedful.batches.sentence_pairs import Frame
from heedful.judging import AnyJudge
from heedful.models.model import Model
from heedful.reading import Record
from heedful.settings import DataSettings, PredictSettings
from heedful.task import Ability, Answer, Fit, Forward, Input, Scores, Start
from heedful.tokens import Tokenizer


class Objective(Protocol):
    """One thing that can be learnt from running text."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """What only some runs can do; see ``Task``."""

    @property
    def answer_options(self) -> frozenset[str]:
        """Fields of ``PredictSettings`` that decide its answers; see ``Task``."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """The scores that can pick the best step; the first does unless told otherwise."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The texts that a finished run is asked about."""

    @property
    def mixes_documents(self) -> bool:
        """Whether it makes pairs of two documents, and so needs as many."""

    @property
    def hides(self) -> bool:
        """Whether it hides tokens, and so needs a vocabulary with a mask, and a rule."""

    @property
    def mask_share(self) -> float:
        """Share of the tokens to predict unless a user says otherwise."""

    @property
    def example(self) -> str:
        """What a user may put after ``heedful predict RUN`` to try it."""

    # The model.

    def load(self, data: DataSettings) -> Model:
        """Load a model to go on with.

        Raises:
            UserError: there is no such model, or it does not suit.
        """

    def make(self, arch: str, config: Any) -> Model:
        """Make a model from scratch.

        Args:
            arch: its family, by its name in ``FAMILIES``.
            config: of the family.

        Raises:
            UserError: the family has no such model.
        """

    def reload(self, folder: Path) -> Model:
        """Load the model of a finished run, its weights mapped into memory."""

    def write_beside(self, start: Start, folder: Path) -> None:
        """Write into the folder of a finished run what stands beside its model."""

    # Learning.

    def sequences(
        self, corpus: Corpus, frame: Frame, *, seed: int, epoch: int
    ) -> Iterator[Example]:
        """Cut the sequences of an epoch from a corpus; all draws depend on seed and epoch."""

    def doubt(self, store: Store) -> str | None:
        """Say in a line what is odd about the first epoch's sequences, if anything."""

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

    # What a finished run is asked.

    def encode(self, record: Record, tokenizer: Tokenizer, fit: Fit) -> Fitted[Example]:
        """Encode a text that is asked about.

        Raises:
            UserError: nothing can be said of it.
        """

    def ask(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Batch:
        """Pad examples that are asked about."""

    def answer(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> Sequence[Any] | Tensor:
        """Return what `decode` wants of each example; of a tensor, one row."""

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[Any],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Answer:
        """Turn what was computed for each example of a record into the answer."""

    def aim(
        self,
        computed: Computed[Any, Any, Any],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> Aim:
        """Say by which number of the model an answer is explained; see ``Task``."""

    def card(self, masked: str) -> str:
        """Say what a run does, in a sentence or two for its model card.

        Args:
            masked: what was masked, such as ``tokens``.
        """
