"""``--prune``: take out the attention heads that matter least, before training goes on."""

from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from heedful import files
from heedful.batches import Batch
from heedful.errors import UserError
from heedful.models.model import Model
from heedful.models.pruning import head_importance, least_important
from heedful.task import AnyTask
from heedful.training.examples import Examples
from heedful.training.progress import counted

CHOSEN = "pruned_heads.json"
"""Which heads a run has lost: a resumed run takes out the same ones without measuring again."""

EXAMPLES = 512
"""Items that importance is measured on, each in a batch of its own as in the paper."""


def prune(model: Model, task: AnyTask, examples: Examples, share: float, run: Path) -> str:
    """Take heads out of a model by their importance for its loss (Michel et al. 2019).

    Args:
        model: is changed; it has been trained for the task.
        task: what it learnt.
        examples: what importance is measured on.
        share: of all heads, at least 0 and below 1.
        run: the run folder, which remembers the choice.

    Returns:
        What was done, for the user.

    Raises:
        UserError: so many heads cannot be spared, or the model is made of two.
    """
    if not model.can_prune:
        raise UserError("--prune is for models of one BERT; one reads here, and another writes")
    config = model.config
    every = config.num_hidden_layers * config.num_attention_heads
    if (run / CHOSEN).is_file():
        chosen = {int(block): heads for block, heads in files.read_json(run / CHOSEN).items()}
    else:
        importance = _importance(model, task, examples)
        chosen = least_important(importance, round(share * every), config)
        files.write_json(run / CHOSEN, {str(block): heads for block, heads in chosen.items()})
    try:
        model.prune_heads(chosen)
    except UserError as error:
        raise UserError(f"{run / CHOSEN}: {error}") from None
    gone = sum(map(len, chosen.values()))
    which = "; ".join(f"block {n}: {', '.join(map(str, heads))}" for n, heads in chosen.items())
    return f"pruned {gone} of {every} heads that matter least to the loss ({which})"


def _importance(model: Model, task: AnyTask, examples: Examples) -> Tensor:
    """Measure how much each head matters. Shape (L, H)."""
    device = next(model.parameters()).device

    def loss(batch: Batch, mask: Tensor) -> tuple[Tensor, Tensor | float]:
        return task.loss(partial(model, head_mask=mask), batch), task.count(batch)

    # Spread over the data, which may be in the order of its labels.
    chosen = torch.linspace(0, examples.num_items - 1, min(examples.num_items, EXAMPLES)).long()
    items = counted(chosen[:, None].numpy(), "items weighed")
    return head_importance(model, (examples.fetch(item, 0).to(device) for item in items), loss)
