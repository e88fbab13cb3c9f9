"""Store the model outputs of an evaluation in shards that survive an interruption.

Only the model's outputs are stored, in the shards of ``parts.py``, one line per record. Predictions
and scores are cheap to compute from them again.
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
from heedful.commands.parts import PartialOutput
from heedful.commands.shards import Row, digest
from heedful.decoding.options import Hypothesis
from heedful.settings import OutputSettings
from heedful.tasks.generation import GenerationOutput
from heedful.training import ranks


class StoredOutputs:
    """The shards of an evaluation; see ``heedful.evaluation.OutputStore``.

    Args:
        parts: the shards, on rank 0, which alone reads and writes them; None on other ranks.
        sizes: number of records of each finished shard.
        size: number of records of each further shard.
    """

    def __init__(self, parts: PartialOutput | None, sizes: Sequence[int], size: int) -> None:
        self.parts, self.items = parts, sum(sizes)
        self._stored_sizes, self._size = list(sizes), size
        self._number = 0

    @property
    def size(self) -> int:
        """Number of records of the next shard."""
        return self._stored_sizes[0] if self._stored_sizes else self._size

    def get(self, records: Sequence[Any]) -> Iterator[Sequence[Any]] | None:
        """Return the stored outputs for this process's share of the records; None if missing.

        Raises:
            UserError: the stored outputs belong to other records.
        """
        if not self._stored_sizes:
            return None
        lines: list[str] = []
        with ranks.failing_together():
            if self.parts is not None:
                self.parts.check(self._number, digest(records))
                lines = list(self.parts.lines(self._number))
        self._stored_sizes.pop(0)
        self._number += 1
        return map(decode_outputs, ranks.from_first(lines)[ranks.rank() :: ranks.size()])

    def put(self, records: Sequence[Any], outputs: Sequence[Sequence[Any]]) -> None:
        """Store the outputs for this process's share of the records."""
        rows = ranks.to_first([Row(encode_outputs(output), False) for output in outputs])
        with ranks.failing_together():
            if self.parts is not None and rows is not None:
                self.parts.add(rows, digest(records))


@contextmanager
def open_stored(output: OutputSettings, facts: Mapping[str, Any]) -> Iterator[StoredOutputs | None]:
    """Start or resume an evaluation, and lock out other processes meanwhile.

    Args:
        output: file of the predictions.
        facts: identity of the predictions; see ``heedful.commands.identity``.

    Yields:
        The finished shards; None if the evaluation is complete and its scores were shown.

    Raises:
        UserError: see `open_parts`.
    """
    parts: PartialOutput | None = None
    with ExitStack() as stack:
        with ranks.failing_together():
            if ranks.is_first():
                size = evaluation.RECORDS_PER_STEP * ranks.size()
                opened = open_parts(output, {**facts, "files": []}, size, plain=False, scored=True)
                parts = stack.enter_context(opened)
        sizes = None if parts is None else ([shard.items for shard in parts.shards], parts.size)
        shared_sizes = ranks.from_first(sizes)
        yield None if shared_sizes is None else StoredOutputs(parts, *shared_sizes)


def encode_outputs(outputs: Sequence[Any]) -> str:
    """Return the model's outputs for a record as JSON."""
    return json.dumps([_to_fields(output) for output in outputs])


def decode_outputs(line: str) -> list[Any]:
    """Return the outputs that `encode_outputs` encoded."""
    return [_from_fields(fields) for fields in json.loads(line)]


def _to_fields(output: Any) -> dict[str, Any]:
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


def _from_fields(fields: Mapping[str, Any]) -> Tensor | GenerationOutput:
    if "values" in fields:
        values = bytearray(b64decode(fields["values"]))
        dtype = getattr(torch, fields["dtype"])
        flat = torch.frombuffer(values, dtype=dtype) if values else torch.empty(0, dtype=dtype)
        return flat.view(fields["shape"])
    texts = [
        Hypothesis(**text | {"tokens": tuple(text["tokens"])}) for text in fields["hypotheses"]
    ]
    return GenerationOutput(**{**fields, "hypotheses": texts})
