"""``heedful serve``: one process that answers for several runs over HTTP."""
