"""Files to records. Each reader says file and line of what is wrong; none knows a tokenizer."""

from heedful.reading.records import Record, Text, fingerprint, read_records

__all__ = ["Record", "Text", "fingerprint", "read_records"]
