"""Train several things in a row, in one process or in several that ``torchrun`` starts.

What would be float32 is float64 here, so that the order of sums changes next to nothing.
"""

import json
import os
import sys
from pathlib import Path

import torch

torch.set_default_dtype(torch.float64)
torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign]
torch.set_num_threads(1)

from heedful.cli import run  # noqa: E402
from heedful.training import ranks  # noqa: E402

with ranks.together():
    Path(f"rank-{ranks.rank()}.pid").write_text(str(os.getpid()))
    for words in json.loads(sys.argv[1]):
        if code := run(words):
            sys.exit(code)
