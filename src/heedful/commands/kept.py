"""What a model computed for an evaluation, in shards that outlast a stop.

Scores follow from answers, and answers from what the model computed: that is kept, in the shards of
``parts.py``, a line for each record. The model is what takes long; the rest is done again.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from heedful import evaluation
from heedful.commands.outputs import open_parts
from heedful.commands.parts import Parts
from heedful.commands.shards import Row, digest
from heedful.decoding.options import Hypothesis
from heedful.settings import OutputSettings
from heedful.tasks.generation import GenerationOutput
from heedful.training import ranks


class Kept:
    """The shards of an evaluation; see ``heedful.evaluation.Memory``.

    Args:
        parts: of the first process, which alone reads and writes them.
        sizes: of how many records each finished shard is.
        size: of how many the next ones are.
    """

    def __init__(self, parts: Parts | None, sizes: Sequence[int], size: int) -> None:
        self.parts, self.items = parts, sum(sizes)
        self._coming, self._size = list(sizes), size
        self._number = 0

    @property
    def size(self) -> int:
        """How many records come next."""
        return self._coming[0] if self._coming else self._size

    def known(self, records: Sequence[Any]) -> Iterator[Sequence[Any]] | None:
        """Return what was computed of this process's share of some records, if it was.

        Raises:
            UserError: it was of other records.
        """
        if not self._coming:
            return None
        lines: list[str] = []
        with ranks.failing_together():
            if self.parts is not None:
                self.parts.check(self._number, digest(records))
                lines = list(self.parts.lines(self._number))
        self._coming.pop(0)
        self._number += 1
        return map(unpacked, ranks.from_first(lines)[ranks.rank() :: ranks.size()])

    def add(self, records: Sequence[Any], outputs: Sequence[Sequence[Any]]) -> None:
        """Keep what was computed of this process's share of some records."""
        rows = ranks.to_first([Row(packed(output), False) for output in outputs])
        with ranks.failing_together():
            if self.parts is not None and rows is not None:
                self.parts.add(rows, digest(records))


@contextmanager
def open_kept(output: OutputSettings, facts: Mapping[str, Any]) -> Iterator[Kept | None]:
    """Begin with an evaluation, or go on with one, and keep other processes from it meanwhile.

    Args:
        output: the file of its answers.
        facts: what these depend on; see ``heedful.commands.identity``.

    Yields:
        What is finished of it; None if all is, and its scores have been told.

    Raises:
        UserError: see `open_parts`.
    """
    parts: Parts | None = None
    with ExitStack() as holding:
        with ranks.failing_together():
            if ranks.is_first():
                size = evaluation.TOGETHER * ranks.size()
                opened = open_parts(output, {**facts, "files": []}, size, plain=False, scored=True)
                parts = holding.enter_context(opened)
        sizes = None if parts is None else ([shard.items for shard in parts.shards], parts.size)
        begun = ranks.from_first(sizes)
        yield None if begun is None else Kept(parts, *begun)


def packed(outputs: Sequence[Any]) -> str:
    """Return as JSON what the model computed for a record."""
    return json.dumps([_plain(output) for output in outputs])


def unpacked(line: str) -> list[Any]:
    """Return what `packed` was given."""
    return [_computed(fields) for fields in json.loads(line)]


def _plain(output: Any) -> dict[str, Any]:
    if isinstance(output, Tensor):
        values = output.contiguous().reshape(-1).view(torch.uint8).numpy()
        name = str(output.dtype).removeprefix("torch.")
        return {
            "dtype": name,
            "shape": list(output.shape),
            "values": b64encode(values.tobytes()).decode("ascii"),
        }
    assert isinstance(output, GenerationOutput)
    return asdict(output)


def _computed(fields: Mapping[str, Any]) -> Tensor | GenerationOutput:
    if "values" in fields:
        values = bytearray(b64decode(fields["values"]))
        dtype = getattr(torch, fields["dtype"])
        flat = torch.frombuffer(values, dtype=dtype) if values else torch.empty(0, dtype=dtype)
        return flat.view(fields["shape"])
    texts = [
        Hypothesis(**text | {"tokens": tuple(text["tokens"])}) for text in fields["hypotheses"]
    ]
    return GenerationOutput(**{**fields, "hypotheses": texts})
