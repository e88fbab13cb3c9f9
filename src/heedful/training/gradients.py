"""Two optimizations of a training step that do not change its result.

Large embedding tables get sparse gradients. A step touches a few hundred of their thousands of
rows, so zeroing and reading a dense gradient would cost more than the model's own work.

In mixed precision the model runs on low-precision copies of its weights. They are made once per
step, instead of casting each weight and activation at each use.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypedDict, Unpack

import torch
from torch import Tensor, nn
from torch.func import functional_call

from heedful.losses import Reduction
from heedful.models.with_head import float32_layers

# Below this size a sparse gradient saves too little.
_LARGE_TABLE_ROWS = 4096


class TableGradients:
    """Sparse gradients of a model's large embedding tables.

    Args:
        model: the model. Its large ``nn.Embedding`` modules give sparse gradients inside
            :meth:`sparse`.
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
        """Make the tables give sparse gradients inside the context."""
        before = [table.sparse for table in self._tables]
        for table in self._tables:
            table.sparse = True
        try:
            yield
        finally:
            for table, value in zip(self._tables, before, strict=True):
                table.sparse = value

    @contextmanager
    def dense(self) -> Iterator[None]:
        """Give the optimizer dense gradients, which it needs because every row has momentum.

        The dense tensor is reused from step to step, and only the rows that were set are zeroed
        afterwards.
        """
        touched = []
        for table in self._tables:
            gradient = table.weight.grad
            if gradient is not None and gradient.is_sparse:
                if table not in self._dense:
                    self._dense[table] = torch.zeros_like(table.weight)
                rows = gradient.indices()[0]
                dense_gradient = self._dense[table].index_copy_(0, rows, gradient.values())
                table.weight.grad = dense_gradient
                touched.append((dense_gradient, rows))
        try:
            yield
        finally:
            for dense_gradient, rows in touched:
                dense_gradient.index_fill_(0, rows, 0)


def gradient_values(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return all gradients as dense tensors; for a sparse gradient, only its stored rows."""
    values = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        elif parameter.grad is not None:
            values.append(parameter.grad)
    return values


class ModelInputs(TypedDict, total=False):
    """Inputs of a model in training: `heedful.batches.Batch.inputs`."""

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
    """Low-precision copies of a model's weights, in the dtype of its matrix products.

    The model's own parameters stay in float32, because low precision would round small optimizer
    updates to zero (Micikevicius et al. 2018, section 3.1). Embedding tables are not copied; their
    rows are gathered first and then cast. `float32_layers` are not copied either.

    Args:
        model: the model.
        dtype: dtype of the matrix products.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        wide = [m for m in model.modules() if isinstance(m, nn.Embedding)] + float32_layers(model)
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
        """Copy the current weights and drop gradients that were not collected."""
        for narrow in self._narrow:
            narrow.grad = None
        with torch.no_grad():
            torch._foreach_copy_(self._narrow, self._wide)

    def forward(self, **inputs: Unpack[ModelInputs]) -> object:
        """Call the model with the copies in place of its parameters."""
        # The mapping has all names of tied weights, so torch need not search for them at each call.
        return functional_call(self._model, self._by_name, (), dict(inputs), tie_weights=False)

    def collect(self) -> None:
        """Add the gradients of the copies to those of the parameters, in float32."""
        new_gradients, new_values, sums, addends = [], [], [], []
        for wide, narrow, gradient in zip(self._wide, self._narrow, self._gradients, strict=True):
            if narrow.grad is None:
                continue
            if wide.grad is None:
                wide.grad = gradient
                new_gradients.append(gradient)
                new_values.append(narrow.grad)
            else:
                sums.append(wide.grad)
                addends.append(narrow.grad)
            narrow.grad = None
        # One kernel launch for all parameters instead of one for each.
        if new_gradients:
            torch._foreach_copy_(new_gradients, new_values)
        if sums:
            torch._foreach_add_(sums, addends)
