"""``heedful serve``: load runs, and serve them over HTTP until stopped."""

from collections.abc import Sequence

from heedful.extras import missing
from heedful.settings import ServeSettings
from heedful.task import Say


def serve(runs: Sequence[str], settings: ServeSettings, say: Say) -> None:
    """Serve runs until SIGTERM or Ctrl-C.

    Raises:
        UserError: a package is missing, a run cannot be loaded, or the port is taken.
    """
    try:
        from heedful.serving.server import run
    except ImportError:
        raise missing("serve") from None
    run(runs, settings, say)
