"""The token-classification task of Hugging Face's Inference API: entities or word pieces."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

from pydantic import Field

from heedful.serving.asking import Body, Reply, Several, ask
from heedful.serving.pipelines import CallOptions
from heedful.serving.service import ServedRun, Service
from heedful.settings import PredictOptions
from heedful.tasks.answers.entities import TaggedPiece, Tagging

Strategy = Literal["none", "simple", "first", "average", "max"]


class TaggingParameters(Body):
    """How the tags of word pieces are aggregated into words and entities."""

    aggregation_strategy: Strategy | None = Field(
        default=None,
        description="none: each piece separately; simple: neighbouring pieces with the same tag "
        "together; first, average, max: words and their entities, as from `heedful "
        "predict`. Default: first.",
    )
    ignore_labels: Several[str] = Field(default=["O"], description="Tags to leave out.")


class TokenClassification(Body):
    """A text to find entities in."""

    inputs: str = Field(examples=["Ann is in Paris"])
    parameters: TaggingParameters | None = None
    options: CallOptions | None = None


class Entity(Reply):
    """An entity, or a word piece with the strategy none."""

    entity_group: str | None = None
    entity: str | None = None
    score: float
    index: int | None = None
    word: str
    start: int
    end: int


async def tag(service: Service, served: ServedRun, body: TokenClassification) -> Any:
    """Return the entities of a text, or its word pieces with the strategy ``none``."""
    parameters = body.parameters or TaggingParameters()
    strategy = parameters.aggregation_strategy or "first"
    begin = len(served.predictor.tokenizer.layout.begin)
    options = PredictOptions(piece_tags=strategy in ("none", "simple"))
    if strategy in ("average", "max"):
        options["aggregation"] = strategy
    (answer,) = await ask(service, served, [body.inputs], **options)
    if strategy == "none":
        rows = [_piece(piece, begin) for piece in answer.pieces]
    elif strategy == "simple":
        rows = [_group(body.inputs, group) for group in _groups(answer.pieces)]
    else:
        rows = list(_entities(body.inputs, answer))
    ignored = set(parameters.ignore_labels)
    return [row for row in rows if not {row.get("entity"), row.get("entity_group")} & ignored]


def _piece(piece: TaggedPiece, begin: int) -> dict[str, Any]:
    return {
        "entity": piece.tag,
        "score": piece.score,
        "index": piece.number + begin,
        "word": piece.token,
        "start": piece.start,
        "end": piece.end,
    }


def _groups(pieces: Sequence[TaggedPiece]) -> Iterator[list[TaggedPiece]]:
    """Yield groups of adjacent pieces of one type. A tag that begins an entity starts a group."""
    group: list[TaggedPiece] = []
    for piece in pieces:
        prefix, kind = _parsed(piece.tag)
        if group and (_parsed(group[-1].tag)[1] != kind or prefix in ("B", "S", "U")):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _parsed(tag: str) -> tuple[str, str]:
    prefix, dash, kind = tag.partition("-")
    return (prefix, kind) if dash else ("", tag)


def _group(text: str, group: Sequence[TaggedPiece]) -> dict[str, Any]:
    start, end = group[0].start, group[-1].end
    return {
        "entity_group": _parsed(group[0].tag)[1],
        "score": sum(piece.score for piece in group) / len(group),
        "word": text[start:end],
        "start": start,
        "end": end,
    }


def _entities(text: str, answer: Tagging) -> Iterator[dict[str, Any]]:
    """Yield the entities in order, and each stretch of text outside them as one ``O`` group."""
    starts = {entity.start: entity for entity in answer.entities}
    covered_end = 0
    for outside, words in groupby(answer.words, key=lambda word: word.tag == "O"):
        run = list(words)
        if outside:
            scores = [(word.scores or {}).get("O", 0.0) for word in run]
            start, end, score = run[0].start, run[-1].end, sum(scores) / len(run)
            yield {"entity_group": "O", "score": score, "word": text[start:end]} | {
                "start": start,
                "end": end,
            }
            continue
        for word in run:
            if word.start < covered_end or (entity := starts.get(word.start)) is None:
                continue
            covered_end = entity.end
            yield {
                "entity_group": entity.label,
                "score": entity.score,
                "word": entity.text,
                "start": entity.start,
                "end": entity.end,
            }
