"""Cross-validation without factorisations: one Krylov space for every training set.

Training sets differ by a mask of rows only, so all spaces grow from the same passes over X. Each
gives the solutions for all alphas. With all rows as the one training set, random probes in the
space estimate the degrees of freedom, and with them generalised cross-validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ling.design import Array
from ling.design.threads import quiet_blas
from ling.engines.krylov import Space
from ling.selection.samples import Rows, Samples

# A space is looked at again when it has grown by this much.
GROWTH = 1.1
# Share of the memory budget that all spaces together may take.
ROOM = 0.5


class IteratedFolds:
    """Predictions for the test rows of every split, from spaces that grow until they are near.

    `probes` are random vectors that each space starts from, besides y.
    """

    def __init__(
        self, samples: Samples, splits: Sequence[tuple[Rows, Rows]], tol: float, probes: int,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.samples = samples
        self.tests = [test for _, test in splits]
        self.tol = tol
        self.masks = _masks(samples, splits)
        self.masses = self.masks.sum(axis=0)
        self._start(probes, rng)

    def _start(self, probes: int, rng: np.random.Generator) -> None:
        """Means, right-hand sides and probes of all training sets; one pass."""
        samples, n, t = self.samples, len(self.masks), self.samples.n_targets
        signs = rng.choice(np.array([-1.0, 1.0]), (n, probes))
        blocks = []
        for mask in self.masks.T:
            blocks += [mask[:, None], mask[:, None] * samples.Y, np.sqrt(mask)[:, None] * signs]
        products = samples.design.rmatmat(np.hstack(blocks))
        self.x_shifts, self.y_shifts, self.wanted, self.probes = [], [], [], []
        self.spreads, self.spaces = [], []
        for number, mask in enumerate(self.masks.T):
            mine = products[:, number * (1 + t + probes) :][:, : 1 + t + probes]
            sums, xy, probed = mine[:, 0], mine[:, 1 : 1 + t], mine[:, 1 + t :]
            x_shift, y_shift = np.zeros_like(sums), np.zeros(t)
            if samples.fit_intercept:
                x_shift = sums / self.masses[number]
                y_shift = mask @ samples.Y / self.masses[number]
                probed = probed - np.outer(x_shift, np.sqrt(mask) @ signs)
            wanted = xy - np.outer(sums, y_shift)
            self.x_shifts.append(x_shift)
            self.y_shifts.append(y_shift)
            self.wanted.append(wanted)
            self.probes.append(probed)
            self.spreads.append(np.sqrt(mask @ (samples.Y - y_shift) ** 2))
            self.spaces.append(Space(np.hstack([wanted, probed])))
        self._seen = [np.zeros((len(test), 0)) for test in self.tests]

    @property
    def full(self) -> bool:
        """Whether memory does not allow another block."""
        p = self.samples.shape[1]
        numbers = sum((p + len(test)) * 2.0 * (space.dimension + space.following.shape[1])
                      for space, test in zip(self.spaces, self.tests, strict=True))  # fmt: skip
        return bool(8 * numbers > ROOM * self.samples.budget)

    def certified(self, alphas: Array) -> Array:
        """For which alphas every training fit is proved to be within tol."""
        found = np.ones(len(alphas), dtype=bool)
        for number in range(len(self.spaces)):
            found &= (self._bounds(number, alphas) <= self.tol).all(axis=1)
        return found

    def work(self, alphas: Array) -> bool:
        """Grow the spaces until these alphas are certified; False if that could not be."""
        waiting = list(range(len(self.spaces)))
        while True:
            waiting = [
                number for number in waiting
                if not (self._bounds(number, alphas) <= self.tol).all()
                and not self.spaces[number].complete
            ]  # fmt: skip
            if not waiting or self.full:
                return not waiting
            sizes = {number: self.spaces[number].dimension for number in waiting}
            while any(
                self.spaces[number].dimension < GROWTH * sizes[number] + 1
                and not self.spaces[number].complete
                for number in waiting
            ):
                self._grow(waiting)

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """The number of the split and of the alpha, and predictions for its test rows."""
        for number in range(len(self.spaces)):
            for at, P in enumerate(self._predictions(number, alphas)):
                yield number, at, self.samples.in_units(P)

    def _predictions(self, number: int, alphas: Array) -> Iterator[Array]:
        space, t = self.spaces[number], self.samples.n_targets
        seen = self._projected(number)
        shift = self.x_shifts[number] @ space.basis
        inner = space.basis.T @ self.wanted[number]
        for alpha in alphas:
            Y, _ = space.coordinates(inner, np.full(t, alpha))
            yield seen @ Y + (self.y_shifts[number] - shift @ Y)

    def _projected(self, number: int) -> Array:
        """Test rows times the basis; only what is new is multiplied."""
        samples, space, test = self.samples, self.spaces[number], self.tests[number]
        known = self._seen[number].shape[1]
        new = space.basis[:, known:]
        if new.shape[1]:
            chunks = samples.chunks(test)
            parts = [samples.design.subset(some).matmat(new) for some in chunks]
            self._seen[number] = np.hstack([self._seen[number], np.vstack(parts)])
        return np.asarray(self._seen[number])

    def _bounds(self, number: int, alphas: Array) -> Array:
        """(n_alphas, t): of training predictions, relative to the spread of y."""
        space, t = self.spaces[number], self.samples.n_targets
        if not space.dimension:
            return np.full((len(alphas), t), 0.0 if space.complete else np.inf)
        with quiet_blas():
            minorant = space.small_minorant()
            inner = np.tile(space.basis.T @ self.wanted[number], len(alphas))
            each = np.repeat(alphas, t)
            _, left = space.coordinates(inner, each)
            found = np.sqrt(minorant.quadratic(left, each)).reshape(len(alphas), t)
        spread = self.spreads[number]
        relative: Array = np.divide(found, spread, out=np.zeros_like(found), where=spread > 0)
        return relative

    def _grow(self, numbers: list[int]) -> None:
        """A block more for these spaces; one pass."""
        growing = [number for number in numbers if not self.spaces[number].complete]
        blocks = [self.spaces[number].following for number in growing]
        owner = np.repeat(growing, [block.shape[1] for block in blocks])
        V = np.hstack(blocks)
        shifts = np.concatenate(
            [self.x_shifts[number] @ block for number, block in zip(growing, blocks, strict=True)]
        )

        def between(U: Array, rows: slice) -> Array:
            U = U - shifts
            U *= self.masks[rows][:, owner]
            return U

        products = self.samples.design.gram_matmat(V, between)
        with quiet_blas():
            for number in growing:
                self.spaces[number].extend(products[:, owner == number])


class StochasticLeaveOneOut(IteratedFolds):
    """Generalised cross-validation: leave-one-out with the mean of all samples' leverages.

    The residual of sample i is r_i / (1 - edf / n). edf, the trace of the matrix that makes
    predictions of y, is the mean of z'H z over random signs z (Hutchinson 1990).
    """

    def __init__(self, samples: Samples, tol: float, probes: int, rng: np.random.Generator) -> None:
        everything = np.arange(samples.shape[0])
        super().__init__(samples, [(everything, everything)], tol, probes, rng)

    def degrees(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom, without the intercept's, and their standard errors."""
        space, probes = self.spaces[0], self.probes[0]
        inner = space.basis.T @ probes
        found = np.empty((len(alphas), probes.shape[1]))
        for at, alpha in enumerate(alphas):
            Y, _ = space.coordinates(inner, np.full(probes.shape[1], alpha))
            found[at] = np.einsum("ij,ij->j", inner, Y)
        error = found.std(axis=1, ddof=1) / np.sqrt(probes.shape[1])
        return found.mean(axis=1), error

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """For each alpha in turn, those of all samples, as if each had been left out."""
        samples = self.samples
        degrees, _ = self.degrees(alphas)
        n = int((samples.weights > 0).sum())
        for at, P in enumerate(self._predictions(0, alphas)):
            kept = max(1 - (degrees[at] + samples.fit_intercept) / n, 1 / n)
            yield 0, at, samples.in_units(samples.Y - (samples.Y - P) / kept)


def _masks(samples: Samples, splits: Sequence[tuple[Rows, Rows]]) -> Array:
    """(n, n_splits): weights of the rows that each split trains on."""
    masks = np.zeros((samples.shape[0], len(splits)))
    for number, (train, _) in enumerate(splits):
        masks[train, number] = samples.weights[train]
    return masks
