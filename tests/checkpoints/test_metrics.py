"""The rows of ``metrics.jsonl`` that a resumed run keeps."""

from pathlib import Path

from heedful.checkpoints.runs import METRICS, cut_metrics


def test_rows_that_are_none_are_left_out(tmp_path: Path) -> None:
    good = ['{"step": 1, "dev": {"a\u2028b": 0.5}}'.encode(), b'{"step": 2}']
    odd = [b"\xff\xfe", b"5", b"[1]", b"null", b"{}", b'{"step": null}', b'{"step": "1"}', b""]
    odd += [b'{"step": true}', b"[" * 100_000, b"9" * 5_000, b'{"step": 3}', b'{"step": 2']
    (tmp_path / METRICS).write_bytes(b"\n".join([good[0], *odd, good[1]]))
    cut_metrics(tmp_path, 2)
    assert (tmp_path / METRICS).read_bytes() == b"\n".join([*good, b""])
