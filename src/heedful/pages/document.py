"""One HTML document that holds all it needs.

A part that shows something in a browser has a folder with a Jinja2 template for its body, and a
script and a stylesheet where it needs them::

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

The script finds the data by ``heedful.data("explanation")``, a colour of the stylesheet by
``heedful.colour("accent")``, and draws again when colours change: ``heedful.onTheme(draw)``.

``look.css`` has for every page: colours (``--ink``, ``--muted``, ``--accent``, ``--more`` and
``--less`` for signed numbers, ``--series-1`` to ``--series-6``), headings, form controls, tables
(wide ones in ``class="scroll"`` with ``tabindex="0"``, their numbers in ``class="number"``), and
the classes ``controls`` (a row of form controls), ``card``, ``note``, ``facts`` (a ``dl``),
``muted``, ``mono``, ``visually-hidden`` and ``no-print``.

No style stands in an attribute, and no handler: the policy of the document refuses both. A script
sets what depends on data (``element.style.width = ...``), or draws it.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from heedful.files import storable
from heedful.pages.language import ENGLISH, Language, chinese, said_by

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
    """Make a whole HTML document that loads nothing.

    Its policy lets only the given scripts and styles work, known by their digests, and pictures
    that are in the document itself.

    Args:
        title: plain text; the heading of the page, too.
        body: what stands below the heading, from `fill`.
        chinese_body: the same for browsers that ask for Chinese.
        data: what the scripts read, as JSON, by the id that they ask for.
        scripts: JavaScript, run in this order after the body is there.
        styles: CSS, after the shared stylesheet.
        connect: whether scripts may talk to the server that the page came from.
        framed: scripts and styles of documents that scripts show in frames; the policy of the page
            holds for those, too.

    Raises:
        ValueError: data holds a number that is not finite.
    """
    scripts = [asset(_PACKAGE, "look.js"), *scripts]
    data = dict(data or {})
    if chinese_body is not None:
        phrases = chinese().phrases
        data["phrases"] = {said: phrases[said] for said in said_by(scripts)}
    styles = [asset(_PACKAGE, "look.css"), *styles]
    for code in (*scripts, *styles):
        # The digests are of what a browser reads, so nothing may be escaped or end the element.
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
    return storable(page)


def frame(title: str, page: str) -> str:
    """Return a document in a frame of its own, as a notebook shows it: neither styles the other.

    Args:
        title: what a screen reader calls the frame.
        page: the HTML of the document.
    """
    return (
        f'<iframe title="{escape(title)}" width="100%" height="800" sandbox="allow-scripts" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def fill(
    package: str, template: str, values: Mapping[str, object], language: Language = ENGLISH
) -> Markup:
    """Fill a template that lies in a package; all values but `Markup` are escaped.

    Raises:
        jinja2.UndefinedError: the template asks for a value that is not there.
    """
    words = {
        "language": language.name,
        "phrase": language.phrase,
        "sentence": language.sentence,
    }
    return Markup(_environment(package).get_template(template).render({**values, **words}))


@cache
def asset(package: str, name: str) -> str:
    """Read a text file that lies in a package."""
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
    # Browsers know no NaN in JSON. All but ASCII is escaped, which is safe anywhere in a script.
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
