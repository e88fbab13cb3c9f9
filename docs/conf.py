"""How Sphinx builds the site: ``make docs`` writes it to ``build/docs``."""

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

sys.path.insert(0, str(Path(__file__).parent))

import generated

from heedful import __version__

project, author, release = "heedful", "The heedful authors", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["*.py"]
nitpicky = True

html_theme = "furo"
html_title = "heedful"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = html_show_copyright = False

toc_object_entries_show_parents = "hide"
myst_heading_anchors = 4
default_role = "code"
napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
# A type that has no page of its own, such as one of another library, stands as plain text.
nitpick_ignore_regex = [(r"py:.*", r"(?!heedful\.\w+$).*")]


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Put in what is generated, where a page has a line ``<!-- generated: NAME -->``."""
    source[0] = re.sub(
        r"^<!-- generated: ([a-z ]+) -->$",
        lambda mark: generated.PARTS[mark[1]](),
        source[0],
        flags=re.MULTILINE,
    )


def _link_languages(app: Sphinx, page: str, source: list[str]) -> None:
    """Put a link to the page in the other language below its title, where there is one."""
    chinese = page.startswith("zh/")
    other = f"../{page[3:]}" if chinese else f"zh/{page}"
    if (Path(app.srcdir) / page).parent.joinpath(f"{other}.md").exists():
        link = f"[{'English' if chinese else '中文'}]({other}.md)"
        source[0] = re.sub(r"^# .*\n", rf"\g<0>\n{link}\n", source[0], count=1)


def _name_language(
    app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object
) -> None:
    """Say in which language a page is, for fonts and screen readers."""
    if page.startswith("zh/"):
        context["language"] = "zh-CN"


def _refuse_remote(app: Sphinx, error: Exception | None) -> None:
    """Refuse a site that loads anything from the network; links may lead there."""
    loads = re.compile(
        r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=.(?:https?:)?//|(?:@import|url\().?https?:"
    )
    for path in sorted(Path(app.outdir).rglob("*")) if error is None else []:
        if path.suffix in (".html", ".css") and (found := loads.search(path.read_text("utf-8"))):
            raise SphinxError(f"{path} would load from the network: {found[0]}")


def setup(app: Sphinx) -> None:
    """Connect what is generated with the pages."""
    app.connect("build-finished", _refuse_remote)
    app.connect("source-read", _fill)
    app.connect("source-read", _link_languages)
    app.connect("html-page-context", _name_language)
    app.connect("autodoc-process-signature", generated.shorten)
    # Napoleon, at 500, takes what stands before a colon in a field's docstring for its type.
    app.connect("autodoc-process-docstring", generated.keep, priority=400)
    app.connect("autodoc-process-docstring", generated.restore, priority=600)
