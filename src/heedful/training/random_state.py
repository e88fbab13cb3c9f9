"""Every source of randomness a step draws from, as tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor


def random_tensors() -> dict[str, Tensor]:
    """Return the state of torch's generators: the CPU's and each GPU's."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda:{i}": s for i, s in enumerate(torch.cuda.get_rng_state_all())}
    return states


def load_random_tensors(states: Mapping[str, Tensor]) -> None:
    """Put back what :func:`random_tensors` returned; GPUs that are not here are left out."""
    torch.set_rng_state(states["cpu"])
    for name, state in states.items():
        if name.startswith("cuda:") and int(name[5:]) < torch.cuda.device_count():
            torch.cuda.set_rng_state(state, name)
