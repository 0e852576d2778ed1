"""Pictures of fitted models, in the manner of scikit-learn's displays.

matplotlib is loaded by `plot`, so that nothing else here needs it.
"""

from ling.display.cv import CVDisplay
from ling.display.path import PathDisplay
from ling.display.predictions import DecisionDisplay, PredictionDisplay
from ling.display.spectrum import SpectrumDisplay

__all__ = ["CVDisplay", "DecisionDisplay", "PathDisplay", "PredictionDisplay", "SpectrumDisplay"]
