"""Training and run folder settings that all tasks share."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from heedful.errors import UserError
from heedful.settings.ranges import PrecisionName, in_range, refuse_options

MAX_EVALUATIONS = 20
"""Default number of evaluations on --dev."""

HEAD_RATE = 20.0
"""Highest learning rate of a fresh head, in units of that of the pre-trained encoder under it."""

HEAD_RATE_PER_OUTPUT = 2.0
"""Learning rate of a fresh head over whole texts for each of its outputs, in the same units.

Many outputs need a fast head. With few, a fast one fits a small training set before the encoder has
adapted to it. Short trainings use higher rates."""

BATCH_TOKENS = 8192
"""Default number of tokens per micro-batch."""

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
class TrainingDefaults:
    """Default length and learning rate of a training."""

    epochs: int
    """Passes over the training data."""
    min_steps: int
    """Minimum number of steps: small data gets more passes. Three passes over 60 texts are only 6
    steps, too few to learn much (Zhang et al. 2021, "Revisiting few-sample BERT fine-tuning")."""
    learning_rate: float
    """Highest learning rate of the schedule."""
    width: int | None = None
    """Largest hidden size with this rate: twice the size gets half the rate. None for the same rate
    at every size."""

    def rate(self, config: Any) -> float:
        """Return the highest learning rate for a model.

        Args:
            config: the model's configuration. Needs a ``hidden_size`` if ``width`` is set.
        """
        if self.width is None:
            return self.learning_rate
        width: int = config.hidden_size
        return self.learning_rate * min(1, self.width / width)


FINE_TUNING = TrainingDefaults(epochs=3, min_steps=200, learning_rate=7e-5)
"""Defaults for pre-trained models."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSettings:
    """How to train; the same for every task."""

    # Published rates fall as models get wider: ELECTRA's are 5e-4 at 256 and 2e-4 at 768 (Clark et
    # al. 2020, table 6), BERT's 1e-4 at 768 and 1024 (Devlin et al. 2019, appendix A.2).
    scratch: ClassVar[TrainingDefaults] = TrainingDefaults(
        epochs=3, min_steps=2000, learning_rate=5e-4, width=256
    )
    """Defaults for models from scratch."""

    epochs: int | None = None
    """Passes over the training data; default: 3, or more for small data: at least 200 steps, and
    2,000 for a model from scratch."""
    steps: int | None = None
    """Optimizer steps; overrides --epochs."""
    max_minutes: float | None = None
    """Stop after this many minutes and keep the model."""
    batch_size: int = 32
    """Items per optimizer step, over all devices."""
    batch_tokens: int | Literal["auto"] = BATCH_TOKENS
    """Tokens per micro-batch; larger batches use gradient accumulation, with the same result. auto:
    as many as fit into memory."""
    group_by_length: bool | None = None
    """Group items of similar length into a step: faster, but steps differ more from each other.
    Default: yes, except for Transformer translation."""
    learning_rate: float | None = None
    """Highest learning rate of the schedule; default: 7e-5; from scratch 5e-4, and less for hidden
    sizes above 256."""
    head_learning_rate: float | None = None
    """Highest learning rate of the head; default: that of the encoder, times up to 20 for a new
    head on a pre-trained encoder."""
    schedule: Schedule = "linear"
    """Learning-rate schedule after the warm-up."""
    warmup: float = 0.1
    """Number of warm-up steps, or their share of all steps if below 1."""
    weight_decay: float = 0.01
    """Decoupled weight decay; not applied to biases and layer norms."""
    clip: float = 1.0
    """Maximum gradient norm; 0 disables clipping."""
    precision: PrecisionName = "auto"
    """Number format of matrix products; auto uses bf16 if the hardware supports it."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    attention_dropout: float | None = None
    """Dropout probability of attention weights; default: --dropout, or as in the model."""
    gradient_checkpointing: bool = False
    """Recompute each block in the backward pass: slower, but needs far less memory."""
    shard: bool = False
    """Shard the weights, gradients and optimizer state over the processes of torchrun."""
    seed: int = 0
    """Random seed for new weights, data order and dropout."""
    evaluate_every: int | None = None
    """Steps between evaluations on --dev; default: once per epoch, at most 20 times."""
    metric: str | None = None
    """Metric that selects the best step; default: the task's main metric."""
    patience: int | None = None
    """Stop after this many evaluations without improvement."""
    checkpoint_every: int = 500
    """Steps between checkpoints."""
    keep_checkpoints: int = 2
    """Number of latest checkpoints to keep during training, besides the best ones."""
    average: int = 1
    """Average the weights of this many checkpoints: the best on --dev, or the latest."""
    ema: float | None = None
    """Evaluate and keep an exponential moving average of the weights, with this decay."""
    tensorboard: bool = False
    """Also write TensorBoard event files, to RUN/tensorboard."""

    def __post_init__(self) -> None:
        """Refuse numbers out of range, and a warm-up of a schedule without one.

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
        if self.schedule == "constant" and self.warmup > 0:
            why = "has no effect on --schedule constant; give --schedule constant-with-warmup"
            refuse_options(self, ("warmup",), why)
        in_range("weight_decay", self.weight_decay, 0, 10, what="from 0 to 10")
        in_range("clip", self.clip, 0, 1e12, what="0 or above")
        below = math.nextafter(1, 0)
        in_range("attention_dropout", self.attention_dropout, 0, below, what="from 0 to below 1")
        in_range("seed", self.seed, 0, 2**63 - 1, what="from 0 to 2^63 - 1")
        in_range("average", self.average, 1, 10**6, what=count)
        in_range("ema", self.ema, 0, math.nextafter(1, 0), what="from 0 to below 1")
        in_range("keep_checkpoints", self.keep_checkpoints, 1, 10**6, what=count)

    def defaults(self, *, from_scratch: bool) -> TrainingDefaults:
        """Return the default length and learning rate."""
        return self.scratch if from_scratch else FINE_TUNING

    def total_steps(self, steps_per_epoch: int, defaults: TrainingDefaults) -> int:
        """Return the number of training steps.

        Args:
            steps_per_epoch: steps of one pass over the training data.
            defaults: from `defaults`.
        """
        few = max(defaults.epochs, math.ceil(defaults.min_steps / steps_per_epoch))
        return self.steps or steps_per_epoch * (self.epochs or few)

    def steps_between_evaluations(self, steps_per_epoch: int, total_steps: int) -> int:
        """Return the number of steps between evaluations on --dev.

        Args:
            steps_per_epoch: steps of one pass over the training data.
            total_steps: number of training steps.
        """
        rarely = math.ceil(total_steps / MAX_EVALUATIONS)
        return self.evaluate_every or max(steps_per_epoch, rarely)

    @property
    def answer_tokens(self) -> int:
        """Tokens per batch for evaluation and generation, which keep no activations."""
        return BATCH_TOKENS if self.batch_tokens == "auto" else self.batch_tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class TranslateTrainSettings(TrainSettings):
    """How to train a translator: longer, and with a higher learning rate."""

    scratch: ClassVar[TrainingDefaults] = TrainingDefaults(
        epochs=15, min_steps=2000, learning_rate=1e-3
    )

    epochs: int | None = None
    """Passes over the training data; default: 15, or more for small data: at least 2,000 steps;
    with --model 3, and at least 200 steps."""
    batch_size: int = 64
    """Pairs per optimizer step, over all devices."""
    learning_rate: float | None = None
    """Highest learning rate of the schedule; default: 1e-3; with --model 7e-5."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """The run folder."""

    out: Path
    """Run folder to create."""
    resume: bool = False
    """Continue the run in --out from its newest checkpoint, as if it had never stopped."""
    overwrite: bool = False
    """Replace the run in --out; other files in the folder stay."""
