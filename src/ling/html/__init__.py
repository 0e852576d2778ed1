"""The report of a fit: one HTML file that needs no network."""

from ling.html.writing import write_report

__all__ = ["write_report"]
