"""Files to records. Errors name file and line; no reader knows a tokenizer."""

from heedful.reading.records import Record, Text, fingerprint, read_records

__all__ = ["Record", "Text", "fingerprint", "read_records"]
