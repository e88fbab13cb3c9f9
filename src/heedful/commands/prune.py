"""``--prune``: take out the attention heads that matter least, before training goes on."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from heedful import files
from heedful.batches import Batch
from heedful.errors import UserError
from heedful.models import BertModel
from heedful.models.pruning import head_importance, least_important
from heedful.tasks import Task
from heedful.training.progress import counted

CHOSEN = "pruned_heads.json"
"""Which heads a run has lost: a resumed run takes out the same ones without measuring again."""

EXAMPLES = 512
"""Items that importance is measured on, each in a batch of its own as in the paper."""


def prune(
    model: nn.Module,
    share: float,
    run: Path,
    *,
    task: Task,
    goal: Any,
    items: int,
    fetch: Callable[[int], Batch],
) -> str:
    """Take heads out of a model by their importance for its loss (Michel et al. 2019).

    Args:
        model: trained for the task; it is changed.
        share: of all heads, at least 0 and below 1.
        run: the run folder, which remembers the choice.
        task: the model's.
        goal: the model's.
        items: how many items there are to measure on.
        fetch: one item to a batch.

    Returns:
        What was done, for the user.

    Raises:
        UserError: so many heads cannot be spared, or the model is made of two.
    """
    body, *others = (part for part in model.modules() if isinstance(part, BertModel))
    if others:
        raise UserError("--prune is for models of one BERT; one reads here, and another writes")
    config = body.config
    every = config.num_hidden_layers * config.num_attention_heads
    if (run / CHOSEN).is_file():
        chosen = {int(block): heads for block, heads in files.read_json(run / CHOSEN).items()}
    else:

        def loss(batch: Batch, mask: Tensor) -> tuple[Tensor, Tensor | float]:
            return task.loss(partial(model, head_mask=mask), batch, goal)

        # Spread over the data, which may be in the order of its labels.
        chosen_items = torch.linspace(0, items - 1, min(items, EXAMPLES)).long().tolist()
        batches = (fetch(item) for item in counted(iter(chosen_items), "items weighed"))
        importance = head_importance(model, batches, loss)
        chosen = least_important(importance, round(share * every), config)
        files.write_json(run / CHOSEN, {str(block): heads for block, heads in chosen.items()})
    try:
        body.prune_heads(chosen)
    except UserError as error:
        raise UserError(f"{run / CHOSEN}: {error}") from None
    gone = sum(map(len, chosen.values()))
    which = "; ".join(f"block {n}: {', '.join(map(str, heads))}" for n, heads in chosen.items())
    return f"pruned {gone} of {every} heads that matter least to the loss ({which})"
