"""Terminal tables of explanations and measurements."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from heedful.errors import count_of, escape_controls
from heedful.explanations.explanation import Explanation
from heedful.explanations.faithfulness import RANDOM, Faithfulness
from heedful.explanations.heads import TOLERANCE, HeadImportance
from heedful.metrics.resampling import Interval

_BAR = 10
"""Maximum bar length on each side of the middle, in characters."""


def explanation_table(explanation: Explanation) -> Group:
    """Return a table of token scores by method, and whether the scores add up."""
    parts: list[RenderableType] = []
    for attribution in explanation.attributions:
        parts.append(Text(escape_controls(f"{attribution.method}: {attribution.target}")))
        for side, scores in zip(explanation.sides, attribution.scores, strict=True):
            if scores is not None:
                parts.append(_scores(side.display_tokens(), scores))
        if (check := attribution.completeness) is not None:
            verb = "add up to" if check.held else "do NOT add up to"
            parts.append(
                Text(
                    f"scores {verb} the difference of the outputs: {check.total:.4f} and "
                    f"{check.difference:.4f}, with {check.steps} steps"
                )
            )
        parts.append(Text())
    parts += [Text(note) for note in explanation.notes]
    return Group(*parts)


def _scores(tokens: list[str], scores: tuple[float, ...]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    table.add_column(justify="right", min_width=_BAR)
    table.add_column(min_width=_BAR)
    largest = max(map(abs, scores), default=0.0) or 1.0
    for token, score in zip(tokens, scores, strict=True):
        bar = "█" * round(_BAR * abs(score) / largest)
        left, right = (bar, "") if score < 0 else ("", bar)
        table.add_row(Text(escape_controls(token)), f"{score:+.4f}", left, right)
    return table


def faithfulness_table(measured: Faithfulness) -> Group:
    """Return a table of each method's measures with intervals, most faithful method first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for heading in ("comprehensiveness", "sufficiency", "difference"):
        table.add_column(heading, justify="right")
    for method, row in measured.methods.items():
        table.add_row(method, *map(_interval, row.values()))
    best = next(iter(measured.methods))
    advice = (
        "no method is more faithful here than a random order"
        if best == RANDOM
        else f"the most faithful here: --method {best}"
    )
    line = Text(f"{count_of(measured.texts, 'text')}; {advice}")
    return Group(table, *map(Text, measured.notes), line)


def _interval(interval: Interval) -> str:
    return f"{interval.score:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def heads_table(importance: HeadImportance) -> Group:
    """Return a table of the score without each head, and without growing shares of heads."""
    has_several_masks = len({head.mask for head in importance.heads}) > 1
    table = Table(box=None, pad_edge=False)
    for heading in (*(["mask"] if has_several_masks else []), "layer", "head"):
        table.add_column(heading)
    table.add_column("importance", justify="right")
    table.add_column(f"{importance.metric} without it", justify="right")
    for head in sorted(importance.heads, key=lambda head: head.importance):
        name = [head.mask] if has_several_masks else []
        table.add_row(
            *name, str(head.layer), str(head.head), f"{head.importance:.4f}", f"{head.score:.4f}"
        )
    shares = Table(box=None, pad_edge=False)
    for heading in ("without the least important", "heads", importance.metric):
        shares.add_column(heading, justify="right")
    for row in importance.shares:
        shares.add_row(f"{row.share:.0%}", str(row.heads), f"{row.score:.4f}")
    kept = f"within {TOLERANCE:.0%} of the score of all heads, {importance.score:.4f}"
    advice = (
        f"with --prune {importance.prune:g}, the score stays {kept}"
        if importance.prune
        else f"no share of the heads can be pruned with a score {kept}"
    )
    line = Text(f"{count_of(importance.items, 'item')}: {advice}; before any further training")
    return Group(table, Text(), shares, Text(), line)
