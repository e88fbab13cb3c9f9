import pytest

from heedful import doctor
from heedful.cli import EXIT_STOPPED, run


def test_a_stopped_command_passes_on_what_it_was_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop() -> None:
        raise KeyboardInterrupt("go on with --resume")

    monkeypatch.setattr(doctor, "examine", stop)
    assert run(["doctor"]) == EXIT_STOPPED
    assert capsys.readouterr().err == "go on with --resume\n"
