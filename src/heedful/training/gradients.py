"""Two ways to spend less on a step without changing what it computes.

Large embedding tables get sparse gradients: a step touches some hundred of their thousands of rows,
so filling a dense gradient with zeros and reading it again costs more than the model's own work.
And in mixed precision the model runs on narrow copies of its weights, made once a step, instead of
casting each weight and activation at each use.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.func import functional_call

from heedful.losses import Reduction
from heedful.models.with_head import wide_layers

# Below this a dense gradient costs nothing worth saving.
_LARGE_TABLE_ROWS = 4096


class TableGradients:
    """Sparse gradients of a model's large embedding tables.

    Args:
        model: its large ``nn.Embedding`` modules give sparse gradients inside :meth:`sparse`.
    """

    def __init__(self, model: nn.Module) -> None:
        self._tables = [
            module
            for module in model.modules()
            if isinstance(module, nn.Embedding) and module.num_embeddings >= _LARGE_TABLE_ROWS
        ]
        self._dense: dict[nn.Embedding, Tensor] = {}

    @contextmanager
    def sparse(self) -> Iterator[None]:
        """Have the tables give sparse gradients."""
        before = [table.sparse for table in self._tables]
        for table in self._tables:
            table.sparse = True
        try:
            yield
        finally:
            for table, was in zip(self._tables, before, strict=True):
                table.sparse = was

    @contextmanager
    def dense(self) -> Iterator[None]:
        """Show the optimizer dense gradients, which it needs: every row has momentum.

        The dense tensor is kept from step to step, and only the rows that were set are set to zero
        again.
        """
        touched = []
        for table in self._tables:
            gradient = table.weight.grad
            if gradient is not None and gradient.is_sparse:
                if table not in self._dense:
                    self._dense[table] = torch.zeros_like(table.weight)
                rows = gradient.indices()[0]
                dense = self._dense[table].index_copy_(0, rows, gradient.values())
                table.weight.grad = dense
                touched.append((dense, rows))
        try:
            yield
        finally:
            for dense, rows in touched:
                dense.index_fill_(0, rows, 0)


def gradient_values(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return the numbers of each gradient there is; of a sparse one, those that are set."""
    values = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    return values


class ModelInputs(TypedDict, total=False):
    """What models are called with in training: `heedful.batches.Batch.inputs`."""

    input_ids: Tensor
    pixel_values: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    position_ids: Tensor
    positions: Tensor
    labels: Tensor
    reduction: Reduction
    output_hidden_states: bool


class NarrowWeights:
    """Copies of a model's weights in the format of its matrix products.

    The model's own parameters stay in float32: the optimizer changes them by amounts that a narrow
    format would round away (Micikevicius et al. 2018, section 3.1). Embedding tables are not
    copied; their rows are gathered and then narrowed. Nor are `wide_layers`.

    Args:
        model: the model.
        dtype: the format of matrix products.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        wide = [m for m in model.modules() if isinstance(m, nn.Embedding)] + wide_layers(model)
        kept = {id(parameter) for m in wide for parameter in m.parameters(recurse=False)}
        named = {
            name: parameter
            for name, parameter in model.named_parameters()
            if id(parameter) not in kept
        }
        self._model = model
        self._wide: list[Tensor] = list(named.values())
        self._narrow = [
            wide.detach().to(dtype).requires_grad_(wide.requires_grad) for wide in self._wide
        ]
        copies = {id(w): narrow for w, narrow in zip(self._wide, self._narrow, strict=True)}
        self._by_name = {
            name: copies[id(parameter)]
            for name, parameter in model.named_parameters(remove_duplicate=False)
            if id(parameter) in copies
        }
        self._gradients = [torch.empty_like(parameter) for parameter in self._wide]

    def renew(self) -> None:
        """Copy the weights as they are now, and forget gradients that were not collected."""
        for narrow in self._narrow:
            narrow.grad = None
        with torch.no_grad():
            torch._foreach_copy_(self._narrow, self._wide)

    def forward(self, **inputs: Unpack[ModelInputs]) -> object:
        """Call the model with the copies in the place of its parameters."""
        # What is shared has all its names here, which torch would look for at each call.
        return functional_call(self._model, self._by_name, (), dict(inputs), tie_weights=False)

    def collect(self) -> None:
        """Add the copies' gradients to those of the parameters, in float32."""
        first, copied, added, more = [], [], [], []
        for wide, narrow, gradient in zip(self._wide, self._narrow, self._gradients, strict=True):
            if narrow.grad is None:
                continue
            if wide.grad is None:
                wide.grad = gradient
                first.append(gradient)
                copied.append(narrow.grad)
            else:
                added.append(wide.grad)
                more.append(narrow.grad)
            narrow.grad = None
        # Those of all parameters at once: a GPU is asked once, not for each.
        if first:
            torch._foreach_copy_(first, copied)
        if added:
            torch._foreach_add_(added, more)
