"""``heedful score``: compute log-likelihoods of texts, and rerank n-best lists."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import islice, tee
from pathlib import Path

from heedful.errors import UserError, with_article
from heedful.predictor import Predictor
from heedful.reading import Record
from heedful.reading.lines import UTF8
from heedful.reading.n_best import NBestList, read_n_best
from heedful.settings import ColumnSettings, PredictSettings, refuse_options
from heedful.task import AnyTask
from heedful.tasks.generate import Generate
from heedful.tasks.likelihood import Likelihood, Placed, likelihoods

_USED = frozenset({"precision", "device", "max_length", "batch_size", "batch_tokens"})
"""Fields of ``PredictSettings`` that affect the computation of likelihoods."""


def check_settings(settings: PredictSettings, columns: ColumnSettings) -> None:
    """Refuse options of answers and columns that have no effect on likelihoods.

    Raises:
        UserError: naming the option.
    """
    names = [field.name for field in fields(settings) if field.name not in _USED]
    why = "has no effect on the likelihood of a text: leave it out"
    refuse_options(settings, names, why)
    refuse_options(columns, ("text_pair", "label", "label_separator"), why)


def score_texts(predictor: Predictor, texts: Iterable[Placed]) -> Iterator[Likelihood]:
    """Compute the log-likelihood of texts under a pre-trained run, or a run that continues texts.

    Raises:
        UserError: the run has another task, the precision is int8, or a text has no token.
    """
    _check(predictor.task)
    if predictor.precision.int8:
        raise UserError("texts are not scored in int8; give --precision auto or fp32")
    return likelihoods(
        texts,
        predictor.model,
        predictor.task,
        predictor.tokenizer,
        max_length=predictor.max_length,
        batch_tokens=predictor.max_batch_tokens(predictor.settings),
        batch_size=predictor.settings.batch_size,
        device=predictor.device,
    )


def _check(task: AnyTask) -> None:
    if task.name == "pretrain" and not task.abilities & {"fill", "write"}:
        raise UserError(
            "this run detects replaced tokens; only masked and causal language models score texts"
        )
    if task.name != "pretrain" and not (isinstance(task, Generate) and not task.pairs):
        raise UserError(
            f"this is {with_article(task.name)} run; only a pretrain run, or one that continues "
            "texts, scores texts"
        )


def texts_of(records: Iterable[Record]) -> Iterator[Placed]:
    """Yield the texts of records, each with its file and line.

    Raises:
        UserError: a text is blank.
    """
    for record in records:
        where = record.where
        if not record.text.strip():
            raise UserError(f"{where}: empty; there is nothing to score")
        yield record.text, where


def line_of(likelihood: Likelihood, *, everything: bool) -> str:
    """Format the likelihood of a text as a JSON object."""
    row: dict[str, object] = {
        "log_likelihood": round(likelihood.total, 6),
        "perplexity": round(likelihood.perplexity, 6),
        "tokens_total": len(likelihood.tokens),
        "tokens_used": len(likelihood.tokens),  # every token is masked in some window
    }
    if everything:
        values = [round(value, 6) for value in likelihood.log_probabilities]
        row["log_probabilities"] = list(zip(likelihood.tokens, values, strict=True))
    return json.dumps(row, ensure_ascii=False)


def rerank(
    predictor: Predictor, path: Path, *, weight: float, encoding: str = UTF8
) -> Iterator[str]:
    """Sort the hypotheses of each list, best first, and format the list as a JSON object.

    They are sorted by ``score + weight * log_likelihood`` (Salazar et al. 2020, section 4). A list
    without scores is sorted by the likelihood alone. Other keys of hypotheses are kept.

    Args:
        predictor: predictor of a pre-trained run.
        path: JSON lines; see `heedful.reading.n_best`.
        weight: weight of the log-likelihood relative to the hypothesis's own score.
        encoding: character encoding of the file.

    Raises:
        UserError: see `score_texts` and `read_n_best`.
    """
    lists, copies = tee(read_n_best(path, encoding))
    texts = ((entry.text, entry.where) for item in copies for entry in item.entries)
    scored = score_texts(predictor, texts)
    for item in lists:
        yield _ranked(item, list(islice(scored, len(item.entries))), weight)


def _ranked(item: NBestList, scored: list[Likelihood], weight: float) -> str:
    ranked = sorted(
        (
            ((entry.score or 0.0) + weight * likelihood.total, entry, likelihood)
            for entry, likelihood in zip(item.entries, scored, strict=True)
        ),
        key=lambda row: -row[0],
    )
    rows = [
        {
            **entry.others,
            "text": entry.text,
            "score": entry.score or 0.0,
            "log_likelihood": round(likelihood.total, 6),
            "total": round(total, 6),
        }
        for total, entry, likelihood in ranked
    ]
    return json.dumps({**item.others, "hypotheses": rows}, ensure_ascii=False)
