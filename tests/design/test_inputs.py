"""Data and operands are never changed, and never handed out as part of a result."""

import numpy as np

from ling.design import ChunkedStorage, as_design
from tests.design.laws import call_everything
from tests.design.registry import DESIGNS, MATRICES, WRAPPERS, Case, every_design


def arrays_of(raw) -> list[np.ndarray]:
    """The arrays that a user's matrix consists of."""
    if isinstance(raw, ChunkedStorage):
        return [raw.source.array]
    if isinstance(raw, np.ndarray):
        return [raw]
    return [array for array in vars(raw).values() if isinstance(array, np.ndarray)] + list(
        getattr(raw, "coords", ())
    )


def fingerprint(array):
    """All that could be changed about an array."""
    return array.tobytes(), array.dtype, array.shape, array.strides, str(array.flags)


def exercised(case: Case, rng):
    """A case on which everything was called, the operands, and the results."""
    n, p = case.matrix.shape
    operands = [(rng.standard_normal(p), rng.standard_normal(n))]
    operands.append((rng.standard_normal((p, 2)), rng.standard_normal((n, 2))))
    results = [call_everything(case.design, V, U) for V, U in operands]
    if hasattr(case.design, "first_not_finite"):
        case.design.storage.find_nonfinite()
    return [array for pair in operands for array in pair], results


@every_design
def test_data_is_not_changed(storage, wrapper, rng):
    for matrix in ("square", "one-row", "one-column"):
        stored, X = DESIGNS[storage], MATRICES[matrix](rng)
        raw = stored.store(stored.values(X))
        before = [fingerprint(array) for array in arrays_of(raw)]
        exercised(Case(matrix, WRAPPERS[wrapper].wrap(as_design(raw)), X, raw), rng)
        assert [fingerprint(array) for array in arrays_of(raw)] == before, matrix


@every_design
def test_operands_are_not_changed(case, rng):
    n, p = case.matrix.shape
    operands = rng.standard_normal((p, 2)), rng.standard_normal((n, 2))
    before = [fingerprint(array) for array in operands]
    call_everything(case.design, *operands)
    assert [fingerprint(array) for array in operands] == before


@every_design
def test_results_share_no_memory_with_anything(case, rng):
    operands, results = exercised(case, rng)
    inputs = arrays_of(case.raw) + operands
    outputs = [result for by_name in results for result in by_name.values()]
    for i, result in enumerate(outputs):
        assert result.flags.writeable
        assert not any(np.shares_memory(result, array) for array in inputs + outputs[:i])
