"""Records to tensors: readers, a store on disk, length buckets, collation."""

from heedful.batches.buckets import Positions, Step, plan_epoch, plan_pass
from heedful.batches.collate import Batch, collate
from heedful.batches.examples import Draw, Example
from heedful.batches.features import Text, features
from heedful.batches.readers import Columns, Record, fingerprint, read_records
from heedful.batches.store import Store, write_store
from heedful.batches.windows import Fitted, Rule

__all__ = [
    "Batch",
    "Columns",
    "Draw",
    "Example",
    "Fitted",
    "Positions",
    "Record",
    "Rule",
    "Step",
    "Store",
    "Text",
    "collate",
    "features",
    "fingerprint",
    "plan_epoch",
    "plan_pass",
    "read_records",
    "write_store",
]
