"""Groups of options that several commands have, and how commands speak to people."""

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from heedful.settings import (
    ColumnSettings,
    DataSettings,
    ParallelSettings,
    PredictSettings,
    RunSettings,
    TrainSettings,
    TranslateTrainSettings,
)

Columns = Annotated[ColumnSettings, Parameter(name="*", group="Columns")]
Predicting = Annotated[PredictSettings, Parameter(name="*", group="Computing")]
Data = Annotated[DataSettings, Parameter(name="*", group="Data and model")]
Pairs = Annotated[ParallelSettings, Parameter(name="*", group="Data and model")]
TrainingAnew = Annotated[TranslateTrainSettings, Parameter(name="*", group="Training")]
Training = Annotated[TrainSettings, Parameter(name="*", group="Training")]
Place = Annotated[RunSettings, Parameter(name="*", group="Run", negative="")]
COLUMNS, PREDICTING, TRAINING = ColumnSettings(), PredictSettings(), TrainSettings()  # defaults
TRAINING_ANEW = TranslateTrainSettings()


def say(line: str) -> None:
    """Tell the user something, beside the results on standard output."""
    print(line, file=sys.stderr, flush=True)


def print_table(table: Any) -> None:
    """Show a table beside the results, too."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(table)
