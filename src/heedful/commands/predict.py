"""``heedful predict``: write a line for each prediction, to standard output or to files."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from heedful.commands.identity import check_same, file_fingerprints, identity
from heedful.commands.inputs import files_of, streams_of, texts_of, with_prefix
from heedful.commands.nearest import Neighbours, check_no_pairs
from heedful.commands.outputs import names_of, open_parts, told_as_finished
from heedful.commands.parts import PartialOutput, resumable
from heedful.commands.shards import SHARD, digest, shards
from heedful.errors import UserError, count_of, with_article
from heedful.predictor import Predictor
from heedful.reading.lines import STDIN
from heedful.settings import ColumnSettings, OutputSettings, PredictSettings
from heedful.task import Answer, AnyTask, Say
from heedful.training import ranks
from heedful.training.progress import counting

_TOP = PredictSettings().top


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictRequest:
    """Inputs of a prediction, and output options."""

    texts: Sequence[str] = ()
    input: Sequence[Path] = ()
    context: str | None = None
    context_file: Path | None = None
    against: Path | None = None
    prefix: str | None = None
    columns: ColumnSettings
    all_scores: bool = False
    plain: bool = False

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        others = (self.against, self.context_file)
        return [*self.input, *(path for path in others if path is not None)]

    @property
    def options(self) -> dict[str, Any]:
        """Options that affect predictions."""
        names = ("prefix", "all_scores", "plain")
        return asdict(self.columns) | {name: getattr(self, name) for name in names}


def predict(
    run: Path, predictor: Predictor, request: PredictRequest, *, show: Say, say: Say
) -> None:
    """Write predictions to standard output, shard by shard.

    Args:
        run: the run.
        predictor: predictor of the run.
        request: inputs and output options.
        show: called with the lines of each shard.
        say: called with each message for the user.

    Raises:
        UserError: options conflict, or a record is invalid.
    """
    with ranks.failing_together():
        request = replace(request, input=files_of(request.input))
        streams = _input_streams(predictor, request)
    if "see" not in predictor.task.abilities and any(map(_is_file, request.texts)):
        say("the name of a file was read as a text: for the texts in the file, give --input FILE")
    check_same(run, predictor, request.options, request.files)
    _draw_what_is_shown(predictor, request)
    ahead = not any(map(_may_wait, request.input or ([] if request.texts else [STDIN])))
    records, size = chain.from_iterable(streams), SHARD * ranks.size()
    cut = 0
    for shard in shards(predictor, records, _formatter(predictor, request), size=size, ahead=ahead):
        if shard.rows is not None:
            cut += sum(row.cut for row in shard.rows)
            show("\n".join(row.line for row in shard.rows))
    _report_truncation(predictor, cut, say)


def predict_files(
    run: Path, predictor: Predictor, request: PredictRequest, output: OutputSettings, *, say: Say
) -> None:
    """Write predictions to files, as shards that are joined when all are finished.

    Args:
        run: the run.
        predictor: predictor of the run.
        request: inputs and output options.
        output: the output settings.
        say: called with each message for the user.

    Raises:
        UserError: see `predict` and `open_parts`.
        KeyboardInterrupt: the user interrupted it; the message says how to resume.
    """
    assert output.out is not None
    say = ranks.on_first_rank(say)
    with ranks.failing_together():
        request = replace(request, input=files_of(request.input))
        names = names_of(output.out, request.input, request.files, plain=request.plain)
        streams = _input_streams(predictor, request)
    check_same(run, predictor, request.options, request.files)
    with ExitStack() as stack:
        parts: PartialOutput | None = None
        with ranks.failing_together():
            if ranks.is_first():
                facts = _identity(run, predictor, request) | {"files": names}
                opened = open_parts(output, facts, SHARD * ranks.size(), plain=request.plain)
                parts = stack.enter_context(opened)
        progress = ranks.from_first(None if parts is None else (parts.items, parts.size))
        if progress is None:
            say(told_as_finished(output))
            return
        done, size = progress
        counts = [0] * len(streams)
        records = _counted(streams, counts)
        with ranks.failing_together():
            _skip_finished(records, done, parts)
        if done:
            say(f"continuing after {count_of(done, 'answer')}")
        with resumable(parts):
            _answer(predictor, request, records, size, parts)
        with ranks.failing_together():
            if parts is not None:
                parts.join(dict(zip(names, counts, strict=False)))  # no names for an output file
    if parts is not None:
        say(f"{count_of(parts.items, 'answer')} written to {output.out}")
        _report_truncation(predictor, parts.cut, say)


def _answer(
    predictor: Predictor,
    request: PredictRequest,
    records: Iterable[Any],
    size: int,
    parts: PartialOutput | None,
) -> None:
    """Compute predictions for the records, and write each shard on rank 0."""
    _draw_what_is_shown(predictor, request)
    line = _formatter(predictor, request)
    answered = shards(predictor, records, line, size=size, ahead=True, digests=True)
    with counting("items answered", parts.items if parts is not None else 0) as count:
        for shard in answered:
            with ranks.failing_together():
                if parts is not None and shard.rows is not None:
                    parts.add(shard.rows, shard.digest)
                    count(len(shard.rows))


def _skip_finished(records: Iterator[Any], done: int, parts: PartialOutput | None) -> None:
    """Skip the records of finished shards.

    Raises:
        UserError: the records have changed since.
    """
    if parts is None:
        deque(islice(records, done), maxlen=0)
        return
    for number, shard in enumerate(parts.shards):
        parts.check(number, digest(islice(records, shard.items)))


def _identity(run: Path, predictor: Predictor, request: PredictRequest) -> dict[str, Any]:
    """Return everything that predictions depend on, except the records themselves."""
    files = [] if request.against is None else [request.against]
    prints = file_fingerprints(predictor, request.input, files)
    return {**identity(run, predictor, request.options), "prints": prints}


def _input_streams(predictor: Predictor, request: PredictRequest) -> Sequence[Iterable[Any]]:
    """Return the records of each input file, or of the input given instead of files."""
    task, columns = predictor.task, request.columns
    _check_all_scores(task, request)
    if request.against is not None:
        check_no_pairs(request.context, request.context_file, columns)
    elif "embed" in task.abilities and predictor.settings.top != _TOP:
        raise UserError("--top is for the texts of --against: give that file too")
    elif "write" in task.abilities and not request.all_scores and predictor.settings.top != _TOP:
        raise UserError("--top is for the texts of --all-scores: give that option too")
    texts = texts_of(task, request.texts, request.context, request.context_file, columns.encoding)
    streams = streams_of(task, texts, request.input, columns, request.against)
    if request.prefix is None:
        return streams
    return [with_prefix(task, stream, request.prefix) for stream in streams]


def _draw_what_is_shown(predictor: Predictor, request: PredictRequest) -> None:
    """Draw a single sample of each text, unless ``--all-scores`` prints the others too."""
    if predictor.settings.sample and not request.all_scores:
        predictor.settings = replace(predictor.settings, top=1)


def _check_all_scores(task: AnyTask, request: PredictRequest) -> None:
    """Reject ``--all-scores`` if it has no effect.

    Raises:
        UserError: it has no effect; the message says why.
    """
    if not request.all_scores:
        return
    if request.plain:
        raise UserError("--plain prints the answer alone, without scores: leave out --all-scores")
    if request.against is not None:
        raise UserError(
            "--all-scores has no effect with --against; --top sets how many are printed"
        )
    if not task.has_details:
        more = "; --top sets how many words are printed" if "fill" in task.abilities else ""
        raise UserError(f"--all-scores has no effect on {with_article(task.name)} run{more}")


def _counted(streams: Sequence[Iterable[Any]], counts: list[int]) -> Iterator[Any]:
    """Yield the records of all streams, and count the records of each stream."""
    for number, stream in enumerate(streams):
        for record in stream:
            counts[number] += 1
            yield record


def _formatter(predictor: Predictor, request: PredictRequest) -> Callable[[Any], str]:
    """Return the function that formats a prediction."""
    if request.against is None:
        return partial(line_of, everything=request.all_scores, plain=request.plain)
    neighbours = Neighbours.read(predictor, request.against, request.columns, request.input)
    return partial(neighbours.line_of, plain=request.plain)


def line_of(answer: Answer, *, everything: bool, plain: bool) -> str:
    """Format a prediction as a JSON object, or with ``plain`` as text without scores."""
    if plain:
        return answer.plain()
    return json.dumps(answer.to_dict(everything=everything), ensure_ascii=False)


def _is_file(text: str) -> bool:
    try:
        return Path(text).suffix != "" and Path(text).is_file()
    except (OSError, ValueError):  # the name is too long or contains a NUL
        return False


def _may_wait(path: Path) -> bool:
    """Return whether reading may block for a long time."""
    return path == STDIN or path.is_fifo()


def _report_truncation(predictor: Predictor, cut: int, say: Say) -> None:
    if not cut:
        return
    texts = "1 text was" if cut == 1 else f"{cut:,} texts were"
    reason = "see --long-text"
    if "continue" in predictor.task.abilities:
        reason = "a text to continue is always cut at its start"
    say(f"{texts} too long and truncated; {reason}")
