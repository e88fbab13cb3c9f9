"""From records to tensors: examples, the on-disk store, length buckets, collation."""

from heedful.batches.buckets import Positions, Step, plan_epoch, plan_pass
from heedful.batches.collate import Batch, collate
from heedful.batches.examples import Draw, Example
from heedful.batches.features import features
from heedful.batches.store import Store, write_store
from heedful.batches.windows import Fitted

__all__ = [
    "Batch",
    "Draw",
    "Example",
    "Fitted",
    "Positions",
    "Step",
    "Store",
    "collate",
    "features",
    "plan_epoch",
    "plan_pass",
    "write_store",
]
