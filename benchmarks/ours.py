"""The arms of heedful: one for each precision, called as users call it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.arm_process import Trial
from benchmarks.row import Arm, Format

if TYPE_CHECKING:
    from heedful.predictor import Predictor

PRECISIONS: dict[str, Format] = {"bf16": "bf16", "fp32": "fp32", "int8": "int8"}


def arms(run: Callable[[Trial, Callable[..., "Predictor"]], Any]) -> dict[str, Arm]:
    """Return an arm for each precision.

    Args:
        run: Runs the laps; its second argument is a function that loads a run folder in the arm's
            precision.
    """
    return {
        f"heedful {name}": Arm(run=_in_precision(name, run), format=number_format, peer=False)
        for name, number_format in PRECISIONS.items()
    }


def _in_precision(
    precision: str, run: Callable[[Trial, Callable[..., "Predictor"]], Any]
) -> Callable[[Trial], Any]:
    def arm(trial: Trial) -> Any:
        from heedful import load

        def load_run(folder: str, **options: Any) -> "Predictor":
            return load(folder, precision=precision, **options)  # type: ignore[arg-type]

        return run(trial, load_run)

    return arm
