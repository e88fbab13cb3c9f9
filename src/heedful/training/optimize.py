"""The optimizer: AdamW with decoupled weight decay, except on biases and normalisation layers."""

from collections.abc import Iterable, Mapping
from inspect import unwrap

import torch
from torch import Tensor, nn

from heedful.device_transfer import blocks_host
from heedful.errors import UserError
from heedful.models.model import Model
from heedful.models.with_head import float32_layers

STATE_NAMES = ("step", "exp_avg", "exp_avg_sq")


class AdamW(torch.optim.AdamW):
    """torch's AdamW without the wrappers that hide its methods from torch's compiler.

    The first call of each wrapper imports the compiler. That takes seconds, and heedful never uses
    the compiler.
    """

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)
    state_dict = unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = unwrap(torch.optim.AdamW.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))


def parameter_groups(
    model: Model,
    *,
    learning_rate: float,
    head: Iterable[nn.Parameter],
    head_learning_rate: float,
    weight_decay: float,
    target_scale: float = 1.0,
) -> list[dict[str, object]]:
    """Split the trainable parameters by learning rate and weight decay.

    Biases and normalisation parameters do not decay, as in the original code of BERT and XLNet.
    They are told apart by shape: they are vectors, while weights are matrices. Relative position
    biases are matrices, so they are told apart by name.

    The output layer of a regression head is as large as the numbers that it predicts. Adam's
    updates do not depend on the size of the gradient, so prices would be learnt too slowly and
    small shares never settle. With ``target_scale``, the layer learns as if the targets were
    divided by it. Its rate is multiplied by the scale and its weight decay divided by it; the loop
    multiplies its gradient by the group's ``gradient_scale``.

    Args:
        model: the model to train.
        learning_rate: learning rate of all parameters except the head's.
        head: parameters of the head, which have their own learning rate.
        head_learning_rate: learning rate of the head.
        weight_decay: weight decay of the parameters that decay.
        target_scale: standard deviation of the targets of a regression.
    """
    output_ids = {
        id(parameter)
        for layer in float32_layers(model)
        for parameter in layer.parameters(recurse=False)
    }
    head_ids = {id(parameter) for parameter in head}
    body_parameters: list[nn.Parameter] = []
    head_parameters: list[nn.Parameter] = []
    decaying: set[int] = set()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (head_parameters if id(parameter) in head_ids else body_parameters).append(parameter)
            if parameter.ndim > 1 and "bias" not in name:
                decaying.add(id(parameter))
    return [
        {
            "params": [
                p
                for p in parameters
                if (id(p) in decaying) == decayed and (id(p) in output_ids) == is_output
            ],
            "lr": rate * scale,
            "weight_decay": weight_decay / scale if decayed else 0.0,
            "gradient_scale": scale,
        }
        for parameters, rate in (
            (body_parameters, learning_rate),
            (head_parameters, head_learning_rate),
        )
        for is_output, scale in ((False, 1.0), (True, target_scale))
        for decayed in (True, False)
    ]


def adamw(
    model: Model,
    *,
    learning_rate: float,
    head: Iterable[nn.Parameter] = (),
    head_learning_rate: float | None = None,
    weight_decay: float = 0.01,
    target_scale: float = 1.0,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
) -> AdamW:
    """Build AdamW (Loshchilov and Hutter 2019), by default with BERT's hyperparameters.

    The fused kernel reads each value once. On a CPU it is several times faster than the loop.
    """
    groups = parameter_groups(
        model,
        learning_rate=learning_rate,
        head=head,
        head_learning_rate=head_learning_rate or learning_rate,
        weight_decay=weight_decay,
        target_scale=target_scale,
    )
    return AdamW(groups, lr=learning_rate, betas=betas, eps=epsilon, fused=True)


def step_unless(stopped: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """Take an optimizer step unless a flag says that the run has stopped.

    Args:
        stopped: the flag, on the parameters' device, where the fused kernel reads it. Shape (),
            bool.
        optimizer: made by `adamw`.
    """
    if not blocks_host(stopped.device):
        if not stopped:
            optimizer.step()
        return
    # torch's GradScaler sets the same two attributes to make the fused kernel skip the update.
    optimizer.grad_scale, optimizer.found_inf = None, stopped.float()  # type: ignore[attr-defined]
    optimizer.step()
    del optimizer.grad_scale, optimizer.found_inf  # type: ignore[attr-defined]


def _parameter_names(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Return the parameter names in the order of the optimizer's indices."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(p)] for group in optimizer.param_groups for p in group["params"]]


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer state as tensors named ``parameter/state``."""
    states = optimizer.state_dict()["state"]
    return {
        f"{name}/{key}": states[index][key]
        for index, name in enumerate(_parameter_names(model, optimizer))
        if index in states
        for key in STATE_NAMES
    }


def load_optimizer_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Load the tensors of :func:`optimizer_tensors`, sharded as the parameters are.

    Raises:
        UserError: the tensors do not match the model's parameters.
    """
    names = _parameter_names(model, optimizer)
    # Before the first step there is no state. Parameters without a gradient never have one, such as
    # the position embeddings of a model with relative positions.
    updated = {name.rpartition("/")[0] for name in tensors} & {*names}
    expected = {f"{name}/{key}" for name in updated for key in STATE_NAMES}
    if expected != set(tensors):
        mismatch = sorted(expected ^ set(tensors))[0]
        raise UserError(f"optimizer state does not fit the model: {mismatch!r} is on one side only")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state_dict = optimizer.state_dict()
    state_dict["state"] = {
        index: {key: _shard_like(tensors[f"{name}/{key}"], parameter) for key in STATE_NAMES}
        for index, (name, parameter) in enumerate(zip(names, parameters, strict=True))
        if name in updated
    }
    optimizer.load_state_dict(state_dict)


def _shard_like(state: Tensor, parameter: Tensor) -> Tensor:
    """Shard a state tensor as its parameter is, if the parameter is sharded."""
    if state.ndim == 0 or not hasattr(parameter, "full_tensor"):
        return state
    from heedful.training import sharding

    return sharding.share(state, parameter)
