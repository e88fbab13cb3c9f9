"""Read files into records. Errors name file and line. Readers do not depend on a tokenizer."""

from heedful.reading.records import Fingerprint, Record, Text, fingerprint, read_records

__all__ = ["Fingerprint", "Record", "Text", "fingerprint", "read_records"]
