"""``heedful serve``: an HTTP server that serves several runs from one process."""
