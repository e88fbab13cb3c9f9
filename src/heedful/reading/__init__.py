"""Files to records. Errors name file and line; no reader knows a tokenizer."""

from heedful.reading.records import Fingerprint, Record, Text, fingerprint, read_records

__all__ = ["Fingerprint", "Record", "Text", "fingerprint", "read_records"]
