"""JSON as it goes over the wire."""

import json
from typing import Any

from fastapi.responses import JSONResponse


class Json(JSONResponse):
    """JSON that holds any text, half a surrogate pair included, which UTF-8 cannot."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the body."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", errors="backslashreplace")  # \udc80 is that escape in JSON
