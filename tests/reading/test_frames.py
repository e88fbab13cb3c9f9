"""Data in memory becomes files for as long as they are read."""

from heedful.reading.frames import as_files

ROWS = [{"text": "the sky is blue", "label": "blue"}]


def test_the_same_rows_may_be_asked_for_twice() -> None:
    with as_files(ROWS) as (train,), as_files(ROWS) as (dev,):
        assert train.read_text() == dev.read_text()
    assert not train.parent.exists()
