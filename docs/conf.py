"""How Sphinx builds the website from the pages that tools/site.py gathers. No lesson is executed, nothing is fetched."""

import re
import sys
from importlib.metadata import files
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_utils import __version__  # noqa: E402
from tools import lessons  # noqa: E402

project = "What does attention tell us about why a model decided?"
author = "The authors of the course"
copyright = "the authors. Text and figures CC BY 4.0, code MIT"
release = __version__
language = "en"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]

# Lessons
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}  # the default is a CDN; a lesson shows the same as a figure above its widget
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = [
    "ref.python",  # attributes with one name in two classes, where a docstring only mentions the word
]

# The package
default_role = "code"  # docstrings put code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# Formulas: MathJax as one file of the page's own, which draws them as SVG and needs no font.
mathjax = next(file for file in files("sphinx-mathjax-offline") if file.name == "tex-svg-full.js")
mathjax_path = "tex-svg-full.js"

smartquotes_action = "D"  # dashes only: a docstring's "bilstm" is code
html_theme = "sphinx_book_theme"
html_title = "Attention and explanation"
html_static_path = ["_static", str(mathjax.locate())]
html_css_files = ["course.css"]
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "repository_url": lessons.repository(),
    "use_repository_button": True,
    "use_download_button": False,
    "show_toc_level": 2,
    "navbar_start": [],
    "navbar_center": [],
    "navbar_end": [],
    "navbar_persistent": [],
}


def one_attribute_a_line(app, what, name, obj, options, lines: list[str]) -> None:
    """`queries, keys: (L, N)` of a class's attributes becomes an entry for each, as napoleon does for arguments."""
    pattern = r"^( {4})(\w+), (\w+)(:.*(?:\n {5,}.*)*)$"
    if "Attributes:" in lines:
        lines[:] = re.sub(pattern, r"\1\2\4\n\1\3\4", "\n".join(lines), flags=re.MULTILINE).split("\n")


def setup(app) -> None:
    app.connect("autodoc-process-docstring", one_attribute_a_line, priority=100)
