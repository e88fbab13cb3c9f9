"""Self-contained HTML documents.

A package that shows something in a browser has a folder with a Jinja2 template for the body, and
optionally a script and a stylesheet::

    PACKAGE = "heedful.explanations"

    def render(explanation: Explanation) -> str:
        values = {"explanation": explanation}
        return document(
            title="Explanation",
            body=fill(PACKAGE, "views.html", values),
            chinese_body=fill(PACKAGE, "views.html", values, chinese()),
            data={"explanation": {"tokens": [...]}},
            scripts=[asset(PACKAGE, "views.js")],
        )

The script reads the data with ``heedful.data("explanation")``, and a colour of the stylesheet with
``heedful.colour("accent")``. ``heedful.onTheme(draw)`` redraws when the colours change.

``look.css`` styles every page. It has colours (``--ink``, ``--muted``, ``--accent``, ``--more`` and
``--less`` for signed numbers, ``--series-1`` to ``--series-6``), headings, form controls and tables
(wide ones in ``class="scroll"`` with ``tabindex="0"``, their numbers in ``class="number"``). Its
classes are ``controls`` (a row of form controls), ``card``, ``note``, ``facts`` (a ``dl``),
``muted``, ``mono``, ``visually-hidden`` and ``no-print``.

The document's policy blocks style attributes and inline event handlers. A script sets styles that
depend on data (``element.style.width = ...``), or draws them.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from heedful.files import replace_surrogates
from heedful.pages.language import ENGLISH, Language, chinese, phrases_in

_PACKAGE = "heedful.pages"


def document(
    *,
    title: str,
    body: Markup,
    chinese_body: Markup | None = None,
    data: Mapping[str, object] | None = None,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    connect: bool = False,
    framed: Sequence[str] = (),
) -> str:
    """Return a complete HTML document that loads no other files.

    Its Content-Security-Policy allows only the given scripts and styles, identified by their
    digests, and images embedded in the document.

    Args:
        title: the title and the heading of the page, as plain text.
        body: the content below the heading, from `fill`.
        chinese_body: the Chinese content, for browsers that prefer Chinese.
        data: data for the scripts, embedded as JSON, by id.
        scripts: JavaScript, run in this order after the body has loaded.
        styles: CSS, applied after the shared stylesheet.
        connect: whether scripts may connect to the server that the page came from.
        framed: scripts and styles of documents that scripts show in frames, since the policy of the
            page also applies to them.

    Raises:
        ValueError: the data has a number that is not finite.
    """
    scripts = [asset(_PACKAGE, "look.js"), *scripts]
    data = dict(data or {})
    if chinese_body is not None:
        phrases = chinese().phrases
        data["phrases"] = {phrase: phrases[phrase] for phrase in phrases_in(scripts)}
    styles = [asset(_PACKAGE, "look.css"), *styles]
    for code in (*scripts, *styles):
        # The digests must match the code as the browser reads it: it may not need escaping or end
        # its element.
        assert not any(mark in code.lower() for mark in ("</script", "</style", "<!--", "\r"))
    page = fill(
        _PACKAGE,
        "document.html",
        {
            "title": title,
            "body": body,
            "chinese_body": chinese_body,
            "chinese_title": chinese().sentence(title),
            "data": data,
            "scripts": [Markup(script) for script in scripts],
            "styles": [Markup(style) for style in styles],
            "policy": _policy([*scripts, *framed], [*styles, *framed], connect),
        },
    )
    return replace_surrogates(page)


def frame(title: str, page: str) -> str:
    """Return a document in an iframe for a notebook, so that their styles do not mix.

    Args:
        title: title of the frame, for screen readers.
        page: the HTML of the document.
    """
    return (
        f'<iframe title="{escape(title)}" width="100%" height="800" sandbox="allow-scripts" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def fill(
    package: str, template: str, values: Mapping[str, object], language: Language = ENGLISH
) -> Markup:
    """Render a template of a package. All values except `Markup` are escaped.

    Raises:
        jinja2.UndefinedError: the template uses a value that is missing.
    """
    words = {
        "language": language.name,
        "phrase": language.phrase,
        "sentence": language.sentence,
    }
    return Markup(_environment(package).get_template(template).render({**values, **words}))


@cache
def asset(package: str, name: str) -> str:
    """Return the content of a text file in a package."""
    return (resources.files(package) / name).read_text(encoding="utf-8")


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Browsers cannot parse NaN in JSON. Non-ASCII characters are escaped, which is safe in scripts.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def _policy(scripts: Sequence[str], styles: Sequence[str], connect: bool) -> str:
    """Return the Content-Security-Policy (W3C, level 3)."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_digest, scripts)),
        "style-src": " ".join(map(_digest, styles)),
        "img-src": "data: blob:",
        "connect-src": "'self'" if connect else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in rules.items())


def _digest(code: str) -> str:
    digest = base64.b64encode(hashlib.sha256(code.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"
