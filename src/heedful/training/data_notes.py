"""Notes about the data that the user should read before training starts."""

from heedful.checkpoints.runs import RunRecord
from heedful.reading.encodings import count_damaged
from heedful.task import AnyTask, Recipe, Say


def say_if_damaged(kind: type[AnyTask], recipe: Recipe, say: Say) -> None:
    """Say if text was decoded with the wrong encoding."""
    if kind.streams(recipe):  # a stream is not read in advance
        return
    if message := count_damaged(recipe.data.train, recipe.columns.encoding):
        say(message)


def say_shared_files(record: RunRecord, say: Say) -> None:
    """Say for each file of the development data if it is also training data.

    Args:
        record: the record of the run, with the fingerprints of its files.
        say: shows the user a line.
    """
    training = {item["sha256"]: item["file"] for item in record.data}
    for item in record.dev or ():
        file, name = training.get(item["sha256"]), item["file"]
        if file is not None:
            also = "in --train, too" if file == name else f"the same as {file} in --train"
            say(
                f"{name} in --dev is {also}: its scores tell how well the model remembers, not how "
                "well it does on new data"
            )
