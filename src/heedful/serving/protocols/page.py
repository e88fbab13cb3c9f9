"""``GET /``: the web page for a browser, and a health check for every other client."""

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import HTMLResponse

from heedful.explanations import html
from heedful.pages.document import asset, document, fill
from heedful.pages.language import chinese
from heedful.serving.asking import described
from heedful.serving.protocols import health, runs
from heedful.serving.service import Service

_PACKAGE = "heedful.serving"
_SCRIPTS = ("elements", "client", "answers", "writing", "why", "program", "tables", "files", "page")
_HEADERS = {
    # Policies that cannot be set inside the document.
    "content-security-policy": "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "vary": "accept",
}


def router(service: Service) -> APIRouter:
    """Return the route of the page."""
    routes = APIRouter(tags=["page"], responses={"default": described(runs.Failure)})

    @routes.get(
        "/",
        response_model=health.Health,
        responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}},
    )
    async def page(request: Request, accept: Annotated[str, Header()] = "") -> Any:
        """Return the page to a browser, and the health of the server to any other client."""
        if "text/html" in accept:
            content = render_page(request.scope.get("root_path", ""), service.settings.log_texts)
            return HTMLResponse(content, headers=_HEADERS)
        health.require_ready(service)
        return health.Health(status="ready")

    return routes


render = runs.render


@cache
def render_page(root_path: str, log_texts: bool) -> str:
    """Return the HTML of the page, which does not depend on the runs.

    Args:
        root_path: prefix of the server's paths behind a proxy.
        log_texts: whether the server logs texts, which the page then states.
    """
    values = {"log_texts": log_texts}
    return document(
        title="heedful",
        body=fill(_PACKAGE, "page/page.html", values),
        chinese_body=fill(_PACKAGE, "page/page.html", values, chinese()),
        data={"server": {"root": root_path}, "sentences": chinese().sentences},
        scripts=[asset(_PACKAGE, f"page/{name}.js") for name in _SCRIPTS],
        styles=[asset(_PACKAGE, "page/page.css")],
        connect=True,
        framed=html.code(),
    )
