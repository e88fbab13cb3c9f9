"""Notes about the data that the user should read before training starts."""

from collections.abc import Iterator

from heedful.checkpoints.runs import RunRecord
from heedful.reading.encodings import count_damaged
from heedful.task import AnyTask, Recipe


def damage_note(kind: type[AnyTask], recipe: Recipe) -> str | None:
    """Return a line about text that was decoded with the wrong encoding, or None."""
    if kind.streams(recipe):  # a stream is not read in advance
        return None
    return count_damaged(recipe.data.train, recipe.columns.encoding)


def shared_file_notes(record: RunRecord) -> Iterator[str]:
    """Yield a line for each file of the development data that is also training data.

    Args:
        record: the record of the run, with the fingerprints of its files.
    """
    training = {item["sha256"]: item["file"] for item in record.data}
    for item in record.dev or ():
        file, name = training.get(item["sha256"]), item["file"]
        if file is not None:
            also = "in --train, too" if file == name else f"the same as {file} in --train"
            yield (
                f"{name} in --dev is {also}: its scores tell how well the model remembers, not how "
                "well it does on new data"
            )
