"""A run folder as a function from text to answers.

The command line, evaluation during and after training, and Python all go through here, so that
they cannot differ.
"""

import copy
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from heedful.batches import Example, Fitted, Text, collate, features, plan_pass
from heedful.checkpoints import runs
from heedful.checkpoints.runs import RunRecord
from heedful.errors import UserError
from heedful.models import BertConfig, BertForSequenceClassification
from heedful.settings import PredictSettings
from heedful.tasks import classify
from heedful.tokens import BertTokenizer
from heedful.training.device import choose_device, choose_precision

# Texts sorted by length together: enough to fill batches without padding, few enough that memory
# does not grow with the file.
_SORTED_TOGETHER = 4096
_DEFAULT = PredictSettings()


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """The answer for one text."""

    label: str | list[str]
    """The likeliest label; for a multi-label run every label whose probability is at least 0.5."""
    score: float | None
    """Its probability; none for a multi-label run."""
    scores: dict[str, float]
    """Probability of every label, in the order of the run's labels."""
    tokens_total: int
    """Tokens of the text."""
    tokens_used: int
    """Tokens the model was given: fewer only where ``long_text`` leaves some out."""
    windows: int
    """Windows the text was read in; their probabilities are averaged."""


class Predictor:
    """Predicts with a classification model.

    Args:
        model: the model; it is not changed, and a copy is made where the precision asks for one.
        tokenizer: its tokenizer.
        record: what the run folder says of it.
        settings: how to compute.
    """

    def __init__(
        self,
        model: BertForSequenceClassification,
        tokenizer: BertTokenizer,
        record: RunRecord,
        settings: PredictSettings = _DEFAULT,
    ) -> None:
        self.device = choose_device(settings.device)
        self.precision = choose_precision(settings.precision, self.device)
        self.tokenizer = tokenizer
        self.record = record
        self.settings = settings
        self.max_length = check_max_length(settings.max_length or record.max_length, model.config)
        self.model = inference_copy(model, self.precision.dtype, self.device)

    @classmethod
    def load(cls, run: str | os.PathLike[str], settings: PredictSettings = _DEFAULT) -> "Predictor":
        """Load a finished run.

        Raises:
            UserError: the folder is not a run, is unfinished, or one of its files is damaged.
        """
        folder = Path(run)
        record = runs.read_record(folder)
        if not runs.is_finished(folder):
            raise UserError(f"{folder}: training has not finished; go on with --resume")
        model = BertForSequenceClassification.from_pretrained(folder)
        return cls(model, BertTokenizer.from_pretrained(folder), record, settings)

    def __call__(self, texts: Text | Sequence[Text]) -> Prediction | list[Prediction]:
        """Answer for one text (or a pair as a tuple), or for a list of them."""
        if isinstance(texts, str | tuple):
            return next(self.predict([texts]))
        return list(self.predict(texts))

    def predict(self, texts: Iterable[Text]) -> Iterator[Prediction]:
        """Answer for each text in its order, holding only some thousands at a time."""
        labels, multi_label = self.record.labels, self.record.multi_label
        for fitted, rows in self._answers(texts):
            for item, row in zip(fitted, rows.tolist(), strict=True):
                best = max(range(len(row)), key=row.__getitem__)
                chosen = [label for label, p in zip(labels, row, strict=True) if p >= 0.5]
                yield Prediction(
                    label=chosen if multi_label else labels[best],
                    score=None if multi_label else row[best],
                    scores=dict(zip(labels, row, strict=True)),
                    tokens_total=item.tokens_total,
                    tokens_used=item.tokens_used,
                    windows=len(item.pieces),
                )

    def probabilities(self, texts: Iterable[Text]) -> Iterator[Tensor]:
        """Give the probabilities of each label, some thousand texts at a time.

        Shape:
            each (texts, labels), fp32, on the CPU.
        """
        for _, rows in self._answers(texts):
            yield rows

    def _answers(self, texts: Iterable[Text]) -> Iterator[tuple[list[Fitted[Example]], Tensor]]:
        fitted = features(
            texts, self.tokenizer, max_length=self.max_length, rule=self.settings.long_text
        )
        while chunk := list(islice(fitted, _SORTED_TOGETHER)):
            yield chunk, self._compute(chunk)

    @torch.inference_mode()
    def _compute(self, texts: Sequence[Fitted[Example]]) -> Tensor:
        """Return the probabilities of each text, averaged over its windows.

        Shape:
            (texts, labels), fp32, on the CPU.
        """
        examples = [example for text in texts for example in text.pieces]
        owner = torch.tensor([number for number, text in enumerate(texts) for _ in text.pieces])
        rows = torch.empty(len(examples), len(self.record.labels))
        for places in plan_pass(
            [len(example.ids) for example in examples],
            batch_tokens=self.settings.batch_tokens,
            max_items=self.settings.batch_size,
        ):
            batch = collate(
                [examples[place] for place in places], pad_id=self.tokenizer.pad_token_id
            ).to(self.device)
            logits = self.model(batch.input_ids, batch.attention_mask, batch.token_type_ids).logits
            rows[torch.from_numpy(places)] = classify.decode(
                logits, multi_label=self.record.multi_label
            ).cpu()
        total = torch.zeros(len(texts), rows.shape[1]).index_add_(0, owner, rows)
        return total / torch.bincount(owner, minlength=len(texts))[:, None]


def check_max_length(max_length: int, config: BertConfig) -> int:
    """Check a length against the positions a model has.

    Raises:
        UserError: it is above them, or too short for a text at all.
    """
    positions = config.max_position_embeddings
    if not 8 <= max_length <= positions:
        raise UserError(
            f"--max-length {max_length}: this model has {positions} positions; "
            f"give a length from 8 to {positions}"
        )
    return max_length


def inference_copy(model: nn.Module, dtype: torch.dtype, device: torch.device) -> nn.Module:
    """Return the model in evaluation mode in a number format; a copy if that changes anything."""
    parameter = next(model.parameters())
    if parameter.dtype is not dtype or parameter.device != device:
        model = copy.deepcopy(model).to(device=device, dtype=dtype)
    return model.eval()


def load(run: str | os.PathLike[str], settings: PredictSettings = _DEFAULT) -> Predictor:
    """Load a finished run as a function from text to answer: ``load("runs/tickets")("a text")``."""
    return Predictor.load(run, settings)
