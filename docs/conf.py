"""The documentation site: `sphinx-build -W --keep-going docs docs/_build/html`.

Nothing is fetched while it is built, and no page loads anything from elsewhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
# `benchmarks` has the tables of the benchmark page, `benchmark_tables` the directive for them.
sys.path[:0] = [str(HERE), str(HERE.parent)]

import ling  # noqa: E402

project = "ling"
author = "The ling developers"
copyright = "The ling developers"  # noqa: A001  (Sphinx's name)
version = release = ling.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "benchmark_tables",
]
exclude_patterns = ["_build", "gallery", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
# Blocks without a language are formulas and drawings.
highlight_language = "none"
# `Ridge` in a docstring is a link if there is such a thing, and code if not.
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "within_subsection_order": "gallery_order.Order",
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
}

html_theme = "pydata_sphinx_theme"
html_title = "ling"
html_static_path = ["_static"]
html_css_files = ["ling.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "ling"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "github-dark",
}
# Pages that have no others below them have nothing to show at their left.
html_sidebars = {
    page: [] for page in ("index", "start", "benchmarks", "reproduction", "design", "search")
}


def skip_inherited(app, what, name, member, skip, options):
    """Leave out what scikit-learn documents: parameters, metadata routing, output containers."""
    routing = name.startswith(("set_", "get_"))
    module = getattr(member, "__module__", None) or ""
    return True if routing and not module.startswith("ling") else None


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", skip_inherited)
