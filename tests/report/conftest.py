"""Pages without pictures, where they are not what is looked at: drawing takes most of the time."""

import pytest

from ling.report import held_out, sections


@pytest.fixture
def undrawn(monkeypatch):
    def blank(name, alt, draw):
        return f'<svg role="img" aria-label="{alt.replace(chr(34), "")}"></svg>'

    for module in (held_out, sections):
        monkeypatch.setattr(module, "render_svg", blank)
