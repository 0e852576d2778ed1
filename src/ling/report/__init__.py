"""What people look at: displays in the manner of scikit-learn's, and the HTML report of a fit.

matplotlib is loaded by `plot` and by `write_report`, so that nothing else here needs it.
"""

from ling.report.cv_display import CVDisplay
from ling.report.path_display import PathDisplay
from ling.report.prediction_display import DecisionDisplay, PredictionDisplay
from ling.report.report_file import write_report
from ling.report.spectrum_display import SpectrumDisplay

__all__ = [
    "CVDisplay",
    "DecisionDisplay",
    "PathDisplay",
    "PredictionDisplay",
    "SpectrumDisplay",
    "write_report",
]
