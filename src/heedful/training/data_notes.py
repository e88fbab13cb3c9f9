"""Notes about the data that the user should read before training starts."""

from collections.abc import Iterator

from heedful.checkpoints.runs import RunRecord
from heedful.reading.encodings import count_damaged
from heedful.task import AnyTask, Recipe


def data_notes(kind: type[AnyTask], recipe: Recipe, record: RunRecord) -> Iterator[str]:
    """Yield a line for each problem of the data that training can live with.

    Args:
        kind: class of the task.
        recipe: the settings of the run.
        record: the record of the run, with the fingerprints of its files.
    """
    is_stream = kind.streams(recipe)  # which is not read in advance
    damaged = None if is_stream else count_damaged(recipe.data.train, recipe.columns.encoding)
    if damaged is not None:
        yield damaged
    training = {item["sha256"]: item["file"] for item in record.data}
    for item in record.dev or ():
        file, name = training.get(item["sha256"]), item["file"]
        if file is not None:
            also = "in --train, too" if file == name else f"the same as {file} in --train"
            yield (
                f"{name} in --dev is {also}: its scores tell how well the model remembers, not how "
                "well it does on new data"
            )
