import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.batches.examples import Example
from heedful.batches.store import Store, write_store
from heedful.errors import UserError

Row = tuple[list[int], int | None, tuple[float, ...]]


def example(row: Row) -> Example:
    ids, split, labels = row
    return Example(ids=np.array(ids, dtype=np.int32), split=split, labels=labels)


def row_of(found: Example) -> Row:
    return found.ids.tolist(), found.split, found.labels


rows_of = st.lists(
    st.tuples(
        st.lists(st.integers(0, 2**31 - 1), max_size=5),
        st.none() | st.integers(0, 600),
        st.lists(st.integers(0, 2**53) | st.floats(allow_nan=False), max_size=3).map(tuple),
    ),
    max_size=6,
)


@given(rows_of, st.integers(1, 700))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], times: int
) -> None:
    rows = rows * times  # several blocks, and a last one that is short
    path = tmp_path_factory.mktemp("store") / "train.arrow"
    write_store(path, map(example, rows))
    store = Store(path)
    assert len(store) == len(rows)
    assert [row_of(found) for found in store] == rows
    assert store.lengths.tolist() == [len(ids) for ids, _, _ in rows]
    assert store.label_lengths.tolist() == [len(labels) for _, _, labels in rows]
    assert store.lengths.dtype == store.label_lengths.dtype == np.int32
    assert store.labels.tolist() == [label for _, _, labels in rows for label in labels]


def test_rows_are_found_by_position(tmp_path: Path) -> None:
    write_store(tmp_path / "a", (example(([n, n + 1], None, (n,))) for n in range(5000)))
    store = Store(tmp_path / "a")
    for place in (0, 1023, 1024, 2047, 2048, 4999, np.int64(3000)):
        assert row_of(store[int(place)]) == ([place, place + 1], None, (place,))
        assert row_of(store[place]) == row_of(store[int(place)])  # type: ignore[index]
    for place in (-1, 5000):
        with pytest.raises(IndexError, match=f"example {place} of 5000"):
            store[place]


def test_ids_are_views_into_the_file(tmp_path: Path) -> None:
    write_store(tmp_path / "a", [example(([1, 2, 3], None, ()))])
    before = pa.total_allocated_bytes()
    store = Store(tmp_path / "a")
    ids = store[0].ids
    assert pa.total_allocated_bytes() == before
    assert not ids.flags.owndata
    assert not ids.flags.writeable
    del store
    gc.collect()
    assert ids.tolist() == [1, 2, 3]  # the view keeps the file open


def test_memory_does_not_grow_with_the_examples(tmp_path: Path) -> None:
    def examples(number: int) -> Iterator[Example]:
        for place in range(number):
            yield Example(ids=np.full(100, place, dtype=np.int32), labels=(place % 4,))

    peaks = []
    for number in (3_000, 30_000):
        pool = pa.default_memory_pool()
        highest = 0
        tracemalloc.start()
        try:
            write_store(tmp_path / "a", examples(number))
            highest = max(highest, pool.bytes_allocated())
            for found in Store(tmp_path / "a"):
                assert len(found.ids) == 100
            peaks.append(tracemalloc.get_traced_memory()[1] + pool.bytes_allocated())
        finally:
            tracemalloc.stop()
    # Four bytes an example for each of its lengths, and more while the lengths are joined.
    assert peaks[1] - peaks[0] < 27_000 * 20 + 200_000


def test_a_store_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> Iterator[Example]:
        yield from (example(([1], None, ())) for _ in range(3000))
        raise RuntimeError("stop")

    path = tmp_path / "a"
    write_store(path, [example(([7], None, ()))])
    with pytest.raises(RuntimeError, match="stop"):
        write_store(path, broken())
    assert row_of(Store(path)[0]) == ([7], None, ())
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "no" / "a"
    with pytest.raises(UserError) as caught:
        write_store(path, [])
    assert str(caught.value) == f"{path}: cannot be written: No such file or directory"


def test_files_that_are_no_store(tmp_path: Path) -> None:
    good = tmp_path / "good"
    write_store(good, (example(([1] * 50, None, (1,))) for _ in range(3000)))
    whole = good.read_bytes()
    path = tmp_path / "a"
    for content in (b"", b"text,label\n", whole[:-1], whole[: len(whole) // 2], whole[:8]):
        path.write_bytes(content)
        with pytest.raises(UserError) as caught:
            Store(path)
        assert str(caught.value).startswith(f"{path}: not a file of examples, or damaged: ")
    with pytest.raises(UserError, match=r"missing: not a file of examples, or damaged: "):
        Store(tmp_path / "missing")
    other = pa.table({"ids": [[1]]})
    with pa.ipc.new_file(str(path), other.schema) as writer:
        writer.write_table(other)
    with pytest.raises(UserError) as caught:
        Store(path)
    assert str(caught.value) == f"{path}: not a file of examples"
