"""Text generation: continue a text, or write another text for it, such as a summary or a reply.

For plain text, a BERT is trained as a decoder with next-token prediction. For pairs, one BERT is
the encoder and another the decoder, both warm-started from the same weights (Rothe et al. 2020).
RoBERTa and similar models work too.

Shapes: B examples of a batch, S source tokens, U target tokens.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful import losses
from heedful.batches import Batch, Draw, Example, Fitted
from heedful.batches.collate import collate, token_labels
from heedful.batches.windows import fit_text, locating_errors, split_evenly
from heedful.decoding.search import Hypothesis
from heedful.device_transfer import get_host_copy
from heedful.distillation import DistillationLoss
from heedful.errors import UserError
from heedful.explanation_target import Answered, ExplanationTarget
from heedful.item_results import ItemScorer
from heedful.metrics.generation import bleu_tokenizer
from heedful.models import BertEncoderDecoder
from heedful.models.loading import bidirectional_option, family_of, head_of, load_model
from heedful.models.model import Model
from heedful.reading import Record, Text
from heedful.reading.compressed import extension_of
from heedful.settings import (
    ColumnSettings,
    DataSettings,
    LongText,
    PredictSettings,
    ScoreSettings,
)
from heedful.sources import resolve
from heedful.task import (
    WARNING_SAMPLE,
    Ability,
    Forward,
    LengthLimit,
    Recipe,
    Say,
    Start,
    StoreOf,
    Task,
    check_max_length,
)
from heedful.tasks.answers.generated import Generation, GenerationScores, best_texts
from heedful.tasks.explanation_targets.generated import answered as answer_target
from heedful.tasks.explanation_targets.generated import continued as continuation_target
from heedful.tasks.generation import (
    SEARCH_OPTIONS,
    GenerationOutput,
    known_scores,
    label_positions,
    sampling_seeds,
    search_options,
    unpadded_token_ids,
)
from heedful.tasks.item_scorers import texts as item_scorers
from heedful.tasks.texts import (
    encode_training_records,
    read_table,
    reinitialize_pooler,
    text_records,
)
from heedful.tokens import Tokenizer, load_encoder_tokenizer

MAX_NEW_TOKENS = 64
"""Default maximum number of generated tokens."""
_CHUNK_SIZE = 1024
"""Number of texts per tokenizer call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generate(Task[Record, GenerationOutput, Generation]):
    """Generates texts."""

    name: ClassVar[str] = "generate"
    answer_options: ClassVar[frozenset[str]] = SEARCH_OPTIONS

    pairs: bool
    """Whether it reads a source text and writes a target text; else it continues a text."""
    bleu_tokenize: str = "13a"
    """sacreBLEU tokenizer, chosen by the script of the target texts."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """Generation, and continuation if trained on plain text."""
        return frozenset({"write"} if self.pairs else {"write", "continue"})

    # Records.

    @classmethod
    def read(
        cls, paths: Sequence[Path], columns: ColumnSettings, *, labelled: bool
    ) -> Iterator[Record]:
        """Stream texts of plain files, or pairs of a text and the text in the label column.

        Raises:
            UserError: a record is invalid; names the file and line of the first one.
        """
        if columns.text_pair is not None or columns.label_separator is not None:
            raise UserError(
                "the columns of generate are --text for the source and --label for the target: "
                "leave out --text-pair and --label-separator"
            )
        is_plain = [extension_of(path) == ".txt" for path in paths]
        if columns.format == "text" or (columns.format is None and any(is_plain)):
            if not all(is_plain) and columns.format is None:
                raise UserError("give either .txt files or tables, not both at once")
            lines = read_table(paths, columns, labelled=False)
            return (line for line in lines if line.text.strip()) if labelled else lines
        return read_table(paths, columns, labelled=labelled)

    @classmethod
    def from_texts(cls, texts: Sequence[Text], first: int = 1) -> list[Record]:
        """Make records from texts.

        Raises:
            UserError: an item is a pair.
        """
        if not all(isinstance(text, str) for text in texts):
            raise UserError("generate takes single texts, not pairs")
        return text_records(texts, first)

    @classmethod
    def from_training_data(cls, recipe: Recipe) -> Self:
        """Find out whether the training data has target texts.

        Raises:
            UserError: there is no text.
        """
        records = cls.read(recipe.data.train, recipe.columns, labelled=True)
        sample = list(islice(records, WARNING_SAMPLE))
        if not sample:
            raise UserError("the training data has no text")
        targets = (label for record in sample for label in record.labels or ())
        has_targets = {record.labels is not None for record in chain(sample, records)}
        return cls(pairs=has_targets.pop(), bleu_tokenize=bleu_tokenizer(targets))

    def check(self, record: Record) -> None:
        """Refuse plain text instead of a pair, a pair instead of plain text, and several targets.

        Raises:
            UserError: naming file and line.
        """
        where = record.where
        if (record.labels is not None) != self.pairs:
            expected = "a source text and a target text" if self.pairs else "plain text"
            raise UserError(f"{where}: expected {expected}")
        if record.labels is not None and len(record.labels) != 1:
            raise UserError(f"{where}: {len(record.labels)} target texts, expected 1")

    # Training.

    def metrics(self) -> tuple[str, ...]:
        """Return the metrics that can select the best step."""
        return ("bleu", "chrf", "log_likelihood") if self.pairs else ("log_likelihood",)

    def start(self, recipe: Recipe) -> Start:
        """Warm-start encoder and decoder from one encoder, or continue from a run."""
        data: DataSettings = recipe.data
        torch.manual_seed(recipe.training.seed)
        tokenizer = load_encoder_tokenizer(data.model, data.revision)
        model = self._model(data, tokenizer)
        if data.fresh_pooler:
            reinitialize_pooler(model)
        positions = model.max_positions
        return Start(
            tokenizer=tokenizer,
            model=model,
            max_length=check_max_length(data.max_length or positions, positions),
        )

    def _model(self, data: DataSettings, tokenizer: Tokenizer) -> Any:
        folder = resolve(data.model, data.revision)
        load = partial(load_model, data.model, dropout=data.dropout, revision=data.revision)
        if not self.pairs:
            return load(head="causal_lm", is_decoder=True)
        model_type, family = family_of(folder)
        if head_of(folder) == "seq2seq":
            encoder_decoder: BertEncoderDecoder = load()
        elif (
            "causal_lm" not in family.models
            or bidirectional_option(data.model, data.revision) is None
        ):
            raise UserError(
                f"{folder}: no model of {model_type!r} can generate a target text from a source "
                "text; give a BERT, RoBERTa, ELECTRA, ERNIE or BigBird, or train on plain text"
            )
        else:
            encoder_decoder = BertEncoderDecoder(
                load(head="body", is_decoder=False, add_cross_attention=False),
                load(head="causal_lm", is_decoder=True, add_cross_attention=True),
                decoder_start_token_id=tokenizer.cls_token_id,
            )
        encoder_decoder.check_vocabulary(folder)
        if encoder_decoder.encoder.pooler is not None:
            encoder_decoder.encoder.pooler.requires_grad_(False)  # its output is unused
        return encoder_decoder

    def stores(
        self, recipe: Recipe, start: Start, folder: Path, say: Say
    ) -> tuple[Self, Start, StoreOf]:
        """Encode the training records: plain texts in windows, source texts cut to their heads."""
        rule: LongText = "head" if self.pairs else "window"
        return self, start, encode_training_records(self, recipe, start, folder, say, rule=rule)

    def labelled_records(
        self, paths: Sequence[Path], columns: ColumnSettings, start: Start, folder: Path
    ) -> Callable[[], Iterator[Record]]:
        """Return a function that reads pairs, or texts to score; tables may hold labels too."""
        if self.pairs:
            return lambda: self.read(paths, columns, labelled=True)
        return lambda: (
            text for text in self.read(paths, columns, labelled=False) if text.text.strip()
        )

    def encode(
        self, records: Iterable[Record], tokenizer: Tokenizer, fit: LengthLimit, *, labelled: bool
    ) -> Iterator[Fitted[Example]]:
        """Encode texts as examples that start with ``[CLS]`` and end with ``[SEP]``.

        A text to continue is cut to its tail, at most half of the positions. A source text is split
        into windows without overlap, and a target text is generated for each. A reference target
        belongs to the first window.

        Raises:
            UserError: see `check`; a rule is given for a text to continue; or a text is too long
                and may not be cut; names file and line.
        """
        if not self.pairs and not labelled and fit.long_text != "window":
            raise UserError(
                "--long-text has no effect here: a text to continue is always cut at its start"
            )
        limit = fit.max_length - len(_with_special_tokens(tokenizer, ()))
        records, copies = tee(records)
        for record, ids in zip(records, _token_ids(copies, tokenizer), strict=True):
            if labelled:
                self.check(record)
            kept = ids if self.pairs or labelled else ids[-max(limit // 2, 1) :]
            windows = fit.long_text == "window"
            with locating_errors(record):
                cut = (
                    split_evenly(kept, limit)
                    if windows
                    else fit_text(kept, limit=limit, rule=fit.long_text)
                )
            examples = [_example(tokenizer, part) for part in cut.pieces]
            total, num_used = len(ids), cut.tokens_used
            if labelled and self.pairs:
                (target,) = tokenizer.encode_batch(record.labels or ())
                labels = (*target[:limit], tokenizer.sep_token_id)
                examples[0] = replace(examples[0], labels=tuple(map(float, labels)))
                total, num_used = total + len(target), num_used + len(labels) - 1
            elif labelled:
                examples = [replace(item, labels=tuple(map(float, item.ids))) for item in examples]
            first = len(ids) - len(kept)
            positions = [([first + index for index in part],) for (part,) in cut.kept]
            yield Fitted(pieces=examples, tokens_total=total, tokens_used=num_used, kept=positions)

    def batch(self, examples: Sequence[Example], tokenizer: Tokenizer, draw: Draw | None) -> Batch:
        """Collate and pad examples; the targets are ``labels``, with -100 where there is no label.

        They are the target text, (B, U), or for plain text the next token at each position, (B, S).
        """
        targets = {}
        if draw is not None:
            labels = token_labels(examples)
            next_tokens = F.pad(labels[:, 1:], (0, 1), value=losses.IGNORED)  # (B, S)
            targets["labels"] = labels if self.pairs else next_tokens
        # Generation gives tokens no types.
        pad_id = tokenizer.pad_token_id
        return collate(examples, pad_id=pad_id, closing_type=None, targets=targets)

    def loss(self, forward: Forward, batch: Batch) -> Tensor:
        """Return the summed loss of the target tokens."""
        labels = batch.targets["labels"]
        if self.pairs:
            total: Tensor = forward(**batch.inputs, labels=labels, reduction="sum").loss
            return total
        positions = label_positions(labels)
        logits = forward(**batch.inputs, positions=positions).logits  # (N, V)
        return losses.cross_entropy(logits, labels.flatten()[positions])[0]

    def loss_divisor(self, batch: Batch) -> float:
        """Return the number of target tokens."""
        return float((get_host_copy(batch.targets["labels"]) != losses.IGNORED).sum())

    @property
    def teacher_output(self) -> Literal["scores", "texts"]:
        """A teacher generates target texts, or provides next-token logits for plain text."""
        return "texts" if self.pairs else "scores"

    def distillation_losses(self, batch: Batch) -> tuple[DistillationLoss, ...]:
        """Return the distillation loss of the next-token logits."""
        return (
            DistillationLoss(
                kind="classes",
                divisor=self.loss_divisor(batch),
                extract=lambda output: output.logits,
            ),
        )

    # Answers.

    def check_model(self, model: Model) -> None:
        """Refuse a decoder-only model for pairs, and an encoder-decoder for plain text."""
        if self.pairs != hasattr(model, "max_target_positions"):
            raise UserError(f"pairs is {self.pairs}, but its model is not of that kind")

    def run_model(
        self, model: Forward, batch: Batch, settings: PredictSettings
    ) -> list[GenerationOutput]:
        """Generate texts, or score the known ones; for labelled pairs both."""
        scores = [(0.0, 0)] * batch.num_examples
        labels = batch.targets.get("labels")
        if labels is not None:
            arguments = {"labels": labels} if self.pairs else {"positions": label_positions(labels)}
            output = model(**batch.inputs, **arguments)
            scores = known_scores(output.logits, output.positions, labels)
        hypotheses: list[list[Hypothesis]] = [[]] * batch.num_examples
        if labels is None or self.pairs:
            hypotheses = self._write(model, batch, settings)
        return [
            GenerationOutput(hypotheses=texts, log_likelihood=log_likelihood, tokens_known=tokens)
            for texts, (log_likelihood, tokens) in zip(hypotheses, scores, strict=True)
        ]

    def _write(self, model: Any, batch: Batch, settings: PredictSettings) -> list[list[Hypothesis]]:
        ids, mask = batch.inputs["input_ids"], batch.inputs.get("attention_mask")
        token_ids = unpadded_token_ids(batch)
        # Not limited by the longest text of the batch: a result must not depend on the other texts.
        max_tokens = model.max_target_positions if self.pairs else model.max_positions // 2
        if not self.pairs and (settings.max_new_tokens or 0) > max_tokens:
            raise UserError(
                f"--max-new-tokens {settings.max_new_tokens}: the model continues a text by at "
                f"most {max_tokens:,} tokens, half of its positions"
            )
        search = search_options(
            settings,
            eos_token_id=token_ids[0][-1],  # [SEP]
            max_new_tokens=min(settings.max_new_tokens or MAX_NEW_TOKENS, max_tokens),
            never=token_ids[0][0],  # [CLS]
        )
        texts: list[list[Hypothesis]]
        if not self.pairs:  # a continuation starts before the [SEP]
            lengths = torch.tensor([len(row) for row in token_ids], device=ids.device)
            positions = torch.arange(ids.shape[1] - 1, device=ids.device)
            ids, mask = ids[:, :-1], positions < (lengths - 1)[:, None]  # (B, S - 1)
        texts = model.generate(ids, mask, search=search, item_seeds=sampling_seeds(token_ids))
        return texts

    def decode(
        self,
        record: Record,
        fitted: Fitted[Example],
        outputs: Sequence[GenerationOutput],
        settings: PredictSettings,
        tokenizer: Tokenizer,
    ) -> Generation:
        """Decode tokens into texts; for several windows, join the best text of each.

        A continuation begins with the space that separates it, if the tokenizer encodes spaces.
        """
        text_of = tokenizer.text_of
        if not self.pairs:
            text_of = partial(tokenizer.continuation, after=fitted.pieces[0].ids.tolist())
        return Generation(
            n_best=best_texts(outputs, text_of),
            log_likelihood=sum(output.log_likelihood for output in outputs),
            tokens_known=sum(output.tokens_known for output in outputs),
            tokens_total=fitted.tokens_total,
            tokens_used=fitted.tokens_used,
        )

    def explanation_target(
        self,
        computed: Answered[Record, GenerationOutput, Generation],
        target: str | None,
        tokenizer: Tokenizer,
    ) -> ExplanationTarget:
        """Explain a word of the generated text, or the whole text."""
        write = answer_target if self.pairs else continuation_target
        return write(computed, target, tokenizer)

    def scores(self) -> GenerationScores:
        """Return a new, empty accumulator of scores."""
        return GenerationScores(pairs=self.pairs, bleu_tokenize=self.bleu_tokenize)

    def with_score_settings(self, settings: ScoreSettings) -> Self:
        """Return a copy of the task with another tokenizer for BLEU.

        Raises:
            UserError: it continues texts, which BLEU does not score.
        """
        if not self.pairs:
            raise UserError("--bleu-tokenize: this run continues texts, which BLEU does not score")
        return replace(self, bleu_tokenize=settings.bleu_tokenize or self.bleu_tokenize)

    def item_scorer(self) -> ItemScorer[Generation, Record]:
        """Return the scorer of its answers."""
        if not self.pairs:
            return item_scorers.continued()
        return item_scorers.generated(
            cased=False, translated=False, bleu_tokenize=self.bleu_tokenize
        )

    def model_card(self) -> str:
        """Describe the run for its model card."""
        if self.pairs:
            return "Generates a target text from a source text; trained on pairs of texts."
        return "Continues a text, word by word; trained on plain text."


def _token_ids(records: Iterable[Record], tokenizer: Tokenizer) -> Iterator[list[int]]:
    stream = iter(records)
    while chunk := [record.text for record in islice(stream, _CHUNK_SIZE)]:
        yield from tokenizer.encode_batch(chunk)


def _example(tokenizer: Tokenizer, ids: Sequence[int]) -> Example:
    return Example(ids=np.array(_with_special_tokens(tokenizer, ids), dtype=np.int32))


def _with_special_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    """Add the start and end tokens of a text, even for model families that use none."""
    return [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id]
