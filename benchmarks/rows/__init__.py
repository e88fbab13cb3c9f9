"""The rows of the benchmarks: one file for each kind of task."""

from benchmarks.row import Row
from benchmarks.rows import (
    answer,
    classify,
    command_line,
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
)

ROWS: dict[str, Row] = {
    **tokenize.ROWS,
    **encode.ROWS,
    **embed.ROWS,
    **classify.ROWS,
    **tag.ROWS,
    **answer.ROWS,
    **fill.ROWS,
    **command_line.ROWS,
    **finetune.ROWS,
    **pretrain.ROWS,
    **translate.ROWS,
    **learn_to_translate.ROWS,
    **memory.ROWS,
}
"""Rows by name, in the order of docs/benchmarks.md."""
