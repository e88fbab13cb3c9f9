"""``heedful predict``: records in, a line for each answer out, to standard output or to files."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from heedful.commands.identity import check_same, identity, prints_beside
from heedful.commands.inputs import files_of, streams_of, texts_of, with_prefix
from heedful.commands.nearest import Neighbours, refuse_pairs
from heedful.commands.outputs import names_of, open_parts
from heedful.commands.parts import Parts, kept
from heedful.commands.shards import SHARD, digest, shards
from heedful.errors import UserError, amount, with_article
from heedful.predictor import Predictor
from heedful.reading.lines import STDIN
from heedful.settings import ColumnSettings, OutputSettings, PredictSettings
from heedful.task import Answer, AnyTask, Say
from heedful.training import ranks
from heedful.training.progress import counting


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is asked of a run, and how its answers are written."""

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
        """What decides the answers, beside texts and files."""
        names = ("prefix", "all_scores", "plain")
        return asdict(self.columns) | {name: getattr(self, name) for name in names}


def predict(run: Path, predictor: Predictor, asked: Asked, *, show: Say, say: Say) -> None:
    """Answer on standard output, shard by shard.

    Args:
        run: the run.
        predictor: of it.
        asked: what is asked.
        show: takes the lines of a shard.
        say: takes each line meant for the user.

    Raises:
        UserError: what is asked does not go together, or a record cannot be answered.
    """
    with ranks.failing_together():
        asked = replace(asked, input=files_of(asked.input))
        streams = _streams(predictor, asked)
    if "see" not in predictor.task.abilities and any(map(_is_file, asked.texts)):
        say("a text is the name of a file here: --input FILE answers for what a file holds")
    check_same(run, predictor, asked.options, asked.files)
    ahead = bool(asked.input) and not any(map(_may_wait, asked.input))
    records, size = chain.from_iterable(streams), SHARD * ranks.size()
    cut = 0
    for shard in shards(predictor, records, _line(predictor, asked), size=size, ahead=ahead):
        if shard.rows is not None:
            cut += sum(row.cut for row in shard.rows)
            show("\n".join(row.line for row in shard.rows))
    _tell_cut(predictor, cut, say)


def predict_files(
    run: Path, predictor: Predictor, asked: Asked, output: OutputSettings, *, say: Say
) -> None:
    """Answer in files: in shards, which are joined when all are there.

    Args:
        run: the run.
        predictor: of it.
        asked: what is asked.
        output: where the answers go.
        say: takes each line meant for the user.

    Raises:
        UserError: see `predict` and `open_parts`.
        KeyboardInterrupt: the user stopped it; it says how to go on.
    """
    assert output.out is not None
    say = ranks.said_once(say)
    with ranks.failing_together():
        asked = replace(asked, input=files_of(asked.input))
        names = names_of(output.out, asked.input, asked.files, plain=asked.plain)
        streams = _streams(predictor, asked)
    check_same(run, predictor, asked.options, asked.files)
    with ExitStack() as holding:
        parts: Parts | None = None
        with ranks.failing_together():
            if ranks.is_first():
                facts = _facts(run, predictor, asked) | {"files": names}
                opened = open_parts(output, facts, SHARD * ranks.size(), plain=asked.plain)
                parts = holding.enter_context(opened)
        begun = ranks.from_first(None if parts is None else (parts.items, parts.size))
        if begun is None:
            say(f"{output.out} is finished; nothing to do")
            return
        done, size = begun
        counts = [0] * len(streams)
        records = _counted(streams, counts)
        with ranks.failing_together():
            _pass_over(records, done, parts)
        if done:
            say(f"going on after {amount(done, 'answer')}")
        with kept(parts):
            _answer(predictor, asked, records, size, parts)
        with ranks.failing_together():
            if parts is not None:
                parts.join(dict(zip(names, counts, strict=False)))  # no names where it is one file
    if parts is not None:
        say(f"{amount(parts.items, 'answer')} written to {output.out}")
        _tell_cut(predictor, parts.cut, say)


def _answer(
    predictor: Predictor, asked: Asked, records: Iterable[Any], size: int, parts: Parts | None
) -> None:
    """Answer for records, and have the first process write each shard."""
    line = _line(predictor, asked)
    answered = shards(predictor, records, line, size=size, ahead=True, digests=True)
    with counting("items answered", parts.items if parts is not None else 0) as count:
        for shard in answered:
            with ranks.failing_together():
                if parts is not None and shard.rows is not None:
                    parts.add(shard.rows, shard.digest)
                    count(len(shard.rows))


def _pass_over(records: Iterator[Any], done: int, parts: Parts | None) -> None:
    """Read what is answered already.

    Raises:
        UserError: it was something else.
    """
    if parts is None:
        deque(islice(records, done), maxlen=0)
        return
    for number, shard in enumerate(parts.shards):
        parts.check(number, digest(islice(records, shard.items)))


def _facts(run: Path, predictor: Predictor, asked: Asked) -> dict[str, Any]:
    """Return what answers depend on, beside the records themselves."""
    files = [] if asked.against is None else [asked.against]
    prints = prints_beside(predictor, asked.input, files)
    return {**identity(run, predictor, asked.options), "prints": prints}


def _streams(predictor: Predictor, asked: Asked) -> Sequence[Iterable[Any]]:
    """Return the records of each file that is read, or of what is given in place of files."""
    task, columns = predictor.task, asked.columns
    _check_all_scores(task, asked)
    if asked.against is not None:
        refuse_pairs(asked.context, asked.context_file, columns)
    elif "embed" in task.abilities and predictor.settings.top != PredictSettings().top:
        raise UserError("--top is for the texts of --against: give that file too")
    texts = texts_of(task, asked.texts, asked.context, asked.context_file, columns.encoding)
    streams = streams_of(task, texts, asked.input, columns, asked.against)
    if asked.prefix is None:
        return streams
    return [with_prefix(task, stream, asked.prefix) for stream in streams]


def _check_all_scores(task: AnyTask, asked: Asked) -> None:
    """Refuse ``--all-scores`` where it would change nothing.

    Raises:
        UserError: naming what it does not go with.
    """
    if not asked.all_scores:
        return
    if asked.plain:
        raise UserError("--plain prints the answer alone, without scores: leave out --all-scores")
    if asked.against is not None:
        raise UserError("--all-scores has no effect with --against; --top says how many are told")
    if not task.tells_more:
        more = "; --top says how many words are told" if "fill" in task.abilities else ""
        raise UserError(f"--all-scores has no effect on {with_article(task.name)} run{more}")


def _counted(streams: Sequence[Iterable[Any]], counts: list[int]) -> Iterator[Any]:
    """Yield the records of all streams, and count those of each."""
    for number, stream in enumerate(streams):
        for record in stream:
            counts[number] += 1
            yield record


def _line(predictor: Predictor, asked: Asked) -> Callable[[Any], str]:
    """Return what writes an answer."""
    if asked.against is None:
        return partial(line_of, everything=asked.all_scores, plain=asked.plain)
    neighbours = Neighbours.read(predictor, asked.against, asked.columns, asked.input)
    return partial(neighbours.line_of, plain=asked.plain)


def line_of(answer: Answer, *, everything: bool, plain: bool) -> str:
    """Format one answer: a JSON object, or with ``plain`` the answer alone."""
    if plain:
        return answer.plain()
    return json.dumps(answer.to_dict(everything=everything), ensure_ascii=False)


def _is_file(text: str) -> bool:
    try:
        return Path(text).suffix != "" and Path(text).is_file()
    except (OSError, ValueError):  # longer than a name may be, or with a NUL
        return False


def _may_wait(path: Path) -> bool:
    """Tell whether what is read may be long in coming."""
    return path == STDIN or path.is_fifo()


def _tell_cut(predictor: Predictor, cut: int, say: Say) -> None:
    if not cut:
        return
    texts = "1 text was" if cut == 1 else f"{cut:,} texts were"
    why = "--long-text decides that"
    if "continue" in predictor.task.abilities:
        why = "a text to continue keeps its end"
    say(f"{texts} too long and not read whole; {why}")
