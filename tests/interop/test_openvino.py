"""What is exported computes the same in OpenVINO, where that is installed."""

import sys
from pathlib import Path

import pytest

from heedful.errors import UserError
from heedful.interop import export

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch's exporter, about itself


@pytest.mark.parametrize("name", ["classify", "translate"])
def test_graphs_compute_the_same(name: str, golden: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="needs the extra [openvino]")
    check = export(golden / name, tmp_path / "out", "openvino")
    assert check.difference < 1e-5
    assert not [*(tmp_path / "out").glob("*.onnx")]


def test_recurrent_networks_are_refused(golden: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="needs the extra [openvino]")
    message = "a recurrent network, whose loops OpenVINO's converter does not take; --format onnx"
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
