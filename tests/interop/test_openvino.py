"""Exports compute the same in OpenVINO, if that is installed."""

import sys
from pathlib import Path

import pytest
from tests.interop.readme import printed

import heedful
from heedful.errors import UserError
from heedful.interop import export

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's exporter, about itself


PRINTED = {
    "choose": "logits (1, 2)\n",
    "classify": "logits (2, 3)\n",
    "embed": "last_hidden_state (2, 12, 16)\nsentence_embedding (2, 16)\n",
}
"""Golden runs, and what the program of their README prints."""


@pytest.fixture
def openvino() -> None:
    pytest.importorskip("openvino", reason="needs the extra [openvino]")


@pytest.mark.usefixtures("openvino")
@pytest.mark.parametrize("name", [*PRINTED, "translate", "writer"])
def test_graphs_compute_the_same(
    name: str, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = export(golden / name, tmp_path / "out", "openvino")
    assert check.difference < 1e-5
    assert not [*(tmp_path / "out").glob("*.onnx")]
    text = printed(tmp_path / "out", monkeypatch)
    if name in PRINTED:
        assert text == PRINTED[name]
    else:
        ours = heedful.load(golden / name, precision="fp32")("a text", beam=1).text
        assert text.strip().removeprefix("a text ") == ours.strip()


@pytest.mark.usefixtures("openvino")
def test_recurrent_networks_are_refused(golden: Path, tmp_path: Path) -> None:
    message = (
        "a recurrent network, whose loops OpenVINO's converter does not support; --format onnx"
    )
    with pytest.raises(UserError, match=message):
        export(golden / "gru", tmp_path / "out", "openvino")
    assert [*tmp_path.iterdir()] == []


def test_a_missing_package_is_named(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(UserError, match=r"need openvino: pip install 'heedful\[openvino\]'"):
        export(golden / "classify", tmp_path / "out", "openvino")
    assert [*tmp_path.iterdir()] == []
