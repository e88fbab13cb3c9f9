"""A JSON document is held in memory as a whole, so its size is limited."""

import gzip
from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.reading import json_objects


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_document_of_many_lines_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(json_objects, "MAX_DOCUMENT_BYTES", 30)
    path = tmp_path / name
    for spaces, fits in ((4, True), (5, False)):
        content = ('{"a": "京"}\n' * 2 + " " * spaces).encode()
        assert (len(content) <= 30) == fits
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        if fits:
            assert len(list(json_objects.read_objects(path))) == 2
            continue
        with pytest.raises(UserError, match=rf"{name}: longer than 30 bytes; give JSON Lines"):
            list(json_objects.read_objects(path))
