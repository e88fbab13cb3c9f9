"""Ask runs for answers through the command line, ``heedful.load`` and the public classes alone.

Nothing here knows what is inside the package, so it can ask the runs of any version.
"""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import torch

import heedful
from heedful.cli import run

OUTPUTS = (
    *("last_hidden_state", "pooler_output", "logits", "start_logits", "end_logits"),
    *("prediction_logits", "seq_relationship_logits"),
)


def command(words: list[str]) -> str:
    """Run a command line that must succeed, and return its standard output."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = run([str(word) for word in words])
    assert code == 0, f"heedful {' '.join(words)}: {stderr.getvalue()}"
    return stdout.getvalue()


def evaluate(words: list[str]) -> dict[str, Any]:
    """Return the metrics that a command line writes beside the run, or else prints."""
    printed = command(words)
    path = Path(words[1], "metrics.json")
    metrics = json.loads(path.read_text("utf-8") if path.is_file() else printed)
    return {name: value for name, value in metrics.items() if name != "tokens_per_second"}


def ask(name: str, asked: str | list[str], attribute: str) -> Any:
    """Return a loaded run's answers as JSON values."""
    answer = heedful.load(name)(asked if isinstance(asked, str) else tuple(asked))
    kept = getattr(answer, attribute)
    if attribute == "entities":
        return [[entity.label, entity.start, entity.end, entity.text] for entity in kept]
    return kept


def outputs_of(kind: str, folder: str) -> dict[str, Any]:
    """Return some outputs of a model for two rows, the second of them padded."""
    model = getattr(heedful, kind).from_pretrained(folder).eval()
    ids = torch.tensor([[2, 10, 11, 3, 12, 3], [2, 20, 21, 3, 0, 0]])
    types = torch.tensor([[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]])
    with torch.no_grad():
        outputs = model(ids, (ids != 0).long(), types)
    return {
        name: value[..., :4][0].flatten().tolist() + value[1].flatten()[:4].tolist()
        for name in OUTPUTS
        if isinstance(value := getattr(outputs, name, None), torch.Tensor)
    }
