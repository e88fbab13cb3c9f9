"""The rows: a file for each kind of work."""

from benchmarks.row import Row
from benchmarks.rows import (
    answer,
    classify,
    embed,
    encode,
    fill,
    finetune,
    learn_to_translate,
    memory,
    pretrain,
    tag,
    tokenize,
    translate,
    whole,
)

ROWS: dict[str, Row] = {
    **tokenize.ROWS,
    **encode.ROWS,
    **embed.ROWS,
    **classify.ROWS,
    **tag.ROWS,
    **answer.ROWS,
    **fill.ROWS,
    **whole.ROWS,
    **finetune.ROWS,
    **pretrain.ROWS,
    **translate.ROWS,
    **learn_to_translate.ROWS,
    **memory.ROWS,
}
"""Rows by name, in the order of the page."""
