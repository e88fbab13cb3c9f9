"""How to train, and where a run goes: the same for every task."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from heedful.errors import UserError
from heedful.settings.ranges import PrecisionName, in_range

MOST_EVALUATIONS = 20
"""On --dev, unless told otherwise."""

HEAD_RATE = 20.0
"""How many times faster a fresh head learns than the pre-trained encoder under it."""

BATCH_TOKENS = 8192
"""Tokens that are computed at once, unless told otherwise."""

Schedule = Literal[
    "constant",
    "constant-with-warmup",
    "linear",
    "cosine",
    "cosine-with-restarts",
    "polynomial",
    "inverse-sqrt",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Usual:
    """How long and how fast a model learns, unless told otherwise."""

    epochs: int
    """Passes over the training data."""
    least_steps: int
    """Steps to make, in more passes, if the data is so little. Three passes over 60 texts are 6
    steps, after which a model has learnt little (Zhang et al. 2021, "Revisiting few-sample BERT
    fine-tuning")."""
    learning_rate: float
    """Highest learning rate of the schedule."""
    width: int | None = None
    """The widest hidden size with this rate: twice the width has half the rate. None if all have
    it."""

    def rate(self, config: Any) -> float:
        """Return the highest learning rate of a model.

        Args:
            config: its configuration, which has a ``hidden_size`` where that counts.
        """
        if self.width is None:
            return self.learning_rate
        width: int = config.hidden_size
        return self.learning_rate * min(1, self.width / width)


FINE_TUNING = Usual(epochs=3, least_steps=200, learning_rate=7e-5)
"""Of models that have learnt something."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSettings:
    """How to train, the same for every task."""

    # Published rates fall as models get wider: ELECTRA's are 5e-4 at 256 and 2e-4 at 768 (Clark et
    # al. 2020, table 6), BERT's 1e-4 at 768 and 1024 (Devlin et al. 2019, appendix A.2).
    scratch: ClassVar[Usual] = Usual(epochs=3, least_steps=2000, learning_rate=5e-4, width=256)
    """Of models that have learnt nothing."""

    epochs: int | None = None
    """Passes over the training data; default: 3, or as many as make 200 steps; 2,000 for a model
    from scratch."""
    steps: int | None = None
    """Optimizer steps; overrides --epochs."""
    max_minutes: float | None = None
    """Stop after this many minutes and keep what was learnt."""
    batch_size: int = 32
    """Items per optimizer step, over all devices."""
    batch_tokens: int | Literal["auto"] = BATCH_TOKENS
    """Tokens per micro-batch; a larger batch is accumulated, with the same result. auto: as many as
    fit."""
    group_by_length: bool | None = None
    """Put items of similar length into a step: faster, but steps differ more from each other.
    Default: yes, except for a Transformer that translates."""
    learning_rate: float | None = None
    """Highest learning rate of the schedule; default: 7e-5; for a model from scratch 5e-4, or less
    if it is wider than 256."""
    head_learning_rate: float | None = None
    """Highest learning rate of the head; default: that of the encoder, and 20 times as much for a
    fresh head on a trained encoder."""
    schedule: Schedule = "linear"
    """Schedule of the learning rate after the warm-up."""
    warmup: float = 0.1
    """Warm-up steps, or a share of all steps if below 1."""
    weight_decay: float = 0.01
    """Decoupled weight decay, never of biases and layer norms."""
    clip: float = 1.0
    """Largest gradient norm; 0 turns clipping off."""
    precision: PrecisionName = "auto"
    """Number format of matrix products; auto uses bf16 where the hardware computes it."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    attention_dropout: float | None = None
    """Dropout probability of attention weights; default: as for the rest, or as the model says."""
    gradient_checkpointing: bool = False
    """Recompute each block in the backward pass: slower, but far less memory."""
    shard: bool = False
    """Divide the weights, gradients and optimizer state among the processes of torchrun."""
    seed: int = 0
    """Seed of new weights, the order of the data and dropout."""
    evaluate_every: int | None = None
    """Steps between evaluations on --dev; default: once an epoch, at most 20 times."""
    metric: str | None = None
    """Metric that picks the best step; default: the task's main one."""
    patience: int | None = None
    """Stop after this many evaluations without improvement."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    """Newest checkpoints to keep during training, besides the best ones."""
    average: int = 1
    """Average the weights of this many checkpoints: the best on --dev, or the last ones."""
    ema: float | None = None
    """Decay of an exponential moving average of the weights, which is evaluated and kept."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to RUN/tensorboard."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range.

        Raises:
            UserError: naming the option, the value and what is allowed.
        """
        count, some = "a whole number of at least 1", "a number above 0"
        tiny = math.ulp(0.0)
        for name in ("epochs", "steps", "batch_size"):
            in_range(name, getattr(self, name), 1, math.inf, what=count)
        if self.batch_tokens != "auto":
            whole = f"auto, or {count}"
            in_range("batch_tokens", self.batch_tokens, 1, math.inf, what=whole)
        for name in ("checkpoint_every", "evaluate_every", "patience"):
            in_range(name, getattr(self, name), 1, math.inf, what=count)
        in_range("max_minutes", self.max_minutes, tiny, 1e9, what=some)
        in_range("learning_rate", self.learning_rate, tiny, 10, what="above 0 and at most 10")
        in_range("head_learning_rate", self.head_learning_rate, tiny, 10, what=some)
        shares = "a share from 0 to below 1, or a whole number of steps"
        in_range("warmup", self.warmup, 0, 1e12, what=shares)
        if self.warmup > 1 and not float(self.warmup).is_integer():
            raise UserError(f"--warmup {self.warmup}: must be {shares}")
        in_range("weight_decay", self.weight_decay, 0, 10, what="from 0 to 10")
        in_range("clip", self.clip, 0, 1e12, what="0 or above")
        below = math.nextafter(1, 0)
        in_range("attention_dropout", self.attention_dropout, 0, below, what="from 0 to below 1")
        in_range("seed", self.seed, 0, 2**63 - 1, what="from 0 to 2^63 - 1")
        in_range("average", self.average, 1, 10**6, what=count)
        in_range("ema", self.ema, 0, math.nextafter(1, 0), what="from 0 to below 1")
        in_range("keep_checkpoints", self.keep_checkpoints, 1, 10**6, what=count)

    def usual(self, *, from_scratch: bool) -> Usual:
        """Return how long and how fast a model learns where these settings do not say."""
        return self.scratch if from_scratch else FINE_TUNING

    def total_steps(self, steps_per_epoch: int, usual: Usual) -> int:
        """Return how many steps to train for.

        Args:
            steps_per_epoch: steps of one pass over the training data.
            usual: see `usual`.
        """
        few = max(usual.epochs, math.ceil(usual.least_steps / steps_per_epoch))
        return self.steps or steps_per_epoch * (self.epochs or few)

    def steps_between_evaluations(self, steps_per_epoch: int, total_steps: int) -> int:
        """Return after how many steps to evaluate on --dev.

        Args:
            steps_per_epoch: steps of one pass over the training data.
            total_steps: steps of the training.
        """
        rarely = math.ceil(total_steps / MOST_EVALUATIONS)
        return self.evaluate_every or max(steps_per_epoch, rarely)

    @property
    def answer_tokens(self) -> int:
        """Tokens per batch of what is evaluated or written: that keeps nothing for later."""
        return BATCH_TOKENS if self.batch_tokens == "auto" else self.batch_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateTrainSettings(TrainSettings):
    """How to train a translator: from scratch it learns longer and faster than other models."""

    scratch: ClassVar[Usual] = Usual(epochs=15, least_steps=2000, learning_rate=1e-3)

    epochs: int | None = None
    """Passes over the training data; default: 15, or as many as make 2,000 steps; with --model 3,
    or as many as make 200."""
    batch_size: int = 64
    """Pairs per optimizer step, over all devices."""
    learning_rate: float | None = None
    """Highest learning rate of the schedule; default: 1e-3; with --model 7e-5."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """Where a run goes."""

    out: Path
    """Run folder to create."""
    resume: bool = False
    """Continue the run in --out from its newest checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace the run in --out; anything else in its folder stays."""
