"""The code of docs/heads.md runs unchanged."""

import re
from pathlib import Path
from typing import Any

from heedful import BertForMaskedLM

PAGE = Path(__file__).parents[2] / "docs" / "heads.md"


def test_the_page_runs(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    BertForMaskedLM.from_pretrained(tiny_model).save_pretrained(folder)
    (folder / "vocab.txt").write_bytes((tiny_model / "vocab.txt").read_bytes())
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = "".join(blocks).replace('"folder"', repr(str(folder)))
    names: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    assert names["scores"].shape == (1, names["model"].config.vocab_size)
    assert len(names["best"]) == 5
    assert names["loss"].isfinite()
    assert names["text"].score <= 0
