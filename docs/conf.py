"""How Sphinx builds the site: ``make docs`` writes it to ``build/docs``."""

import re
import sys
from pathlib import Path
from typing import Any

from docutils.nodes import Element
from furo.navigation import get_navigation_tree
from sphinx.addnodes import pending_xref, toctree
from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import TocTree
from sphinx.errors import SphinxError
from sphinx.search.en import SearchEnglish

sys.path.insert(0, str(Path(__file__).parent))

import generated

import heedful

project, author, release = "heedful", "The heedful authors", heedful.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["*.py"]
nitpicky = True

html_theme = "furo"
html_search_language = "en-zh"
html_title = "heedful"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = html_show_copyright = False

# Each page copies the tree of all pages: with every method in it, that takes longer than all else.
toc_object_entries = False
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


def _leave_plain(app: Sphinx, document: Element) -> None:
    """Link no types of other libraries: each would be looked for among all that is documented."""
    for link in list(document.findall(pending_xref)):
        target = link["reftarget"]
        ours = target.startswith("heedful.") or target in heedful.__all__
        if link["refdomain"] == "py" and not ours:
            link.replace_self(link.children)


def _show_language(
    app: Sphinx, page: str, template: str, context: dict[str, Any], _: object
) -> None:
    """Say in which language a page is, and show the pages of that language beside it."""
    if not page.startswith("zh/"):
        return
    context["language"] = "zh-CN"
    assert app.builder is not None
    trees = [
        TocTree(app.env).resolve(
            page, app.builder, tree, prune=False, titles_only=True, includehidden=True
        )
        for tree in app.env.get_doctree("zh/index").findall(toctree)
    ]
    parts = [app.builder.render_partial(tree)["fragment"] for tree in trees if tree is not None]
    context["furo_navigation_tree"] = get_navigation_tree("".join(parts))


class _Search(SearchEnglish):
    """Finds Chinese words of two characters, too, which no space parts from others."""

    lang = "en-zh"

    def split(self, text: str) -> list[str]:
        """Return the words of a text; of Chinese each two characters as well."""
        runs = re.findall("[\u4e00-\u9fff]{3,}", text)
        return super().split(text) + [
            run[at : at + 2] for run in runs for at in range(len(run) - 1)
        ]


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
    app.connect("doctree-read", _leave_plain)
    app.connect("html-page-context", _show_language, priority=900)  # the theme has its own at 500
    app.add_search_language(_Search)
    app.connect("autodoc-process-signature", generated.shorten)
    # Napoleon, at 500, takes what stands before a colon in a field's docstring for its type.
    app.connect("autodoc-process-docstring", generated.keep, priority=400)
    app.connect("autodoc-process-docstring", generated.restore, priority=600)
