"""``heedful serve``."""

from typing import Annotated

from cyclopts import Parameter

from heedful.cli.options import collector_at_rest, say
from heedful.errors import UserError
from heedful.settings import ServeSettings

SERVING = ServeSettings()


def serve(
    *runs: str,
    settings: Annotated[ServeSettings, Parameter(name="*", group="Serving")] = SERVING,
) -> None:
    """Serve runs over HTTP, to this machine only unless --host says otherwise.

        heedful serve runs/tickets runs/de-en minilm

        curl localhost:8000/api/runs/tickets/predict -d '{"texts": ["my card was stolen"]}'
            -H 'Content-Type: application/json'

    Parameters
    ----------
    runs
        Run folders, folders saved by transformers or sentence-transformers, or minilm.
    """
    with collector_at_rest():
        from heedful.commands import serve as command

    if not runs:
        raise UserError("no run to serve: heedful serve RUN [RUN ...]")
    command.serve(runs, settings, say)
