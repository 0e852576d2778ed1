"""`save` and `load`: a fitted model in a file that is safe to open, whoever it is from.

A model file is a zip archive, nothing in it compressed: `model.json`, and a .npy file for each
array. Reading it makes numbers, text and the few classes listed in `values.py`, and never runs
anything that the file says. Every entry has a checksum, and sizes are checked before memory is
taken.
"""

from ling.model_file.archive import SavedModel, load, read_model_file, save

__all__ = ["SavedModel", "load", "read_model_file", "save"]
