"""Residuals of marginals as integers, and what measuring many of them costs together.

The residual of a set A of columns is what its table says beyond all smaller tables: every axis of
x_A centred. Scaled by the sizes it is a whole vector, Xi_A x_A with Xi_A the Kronecker product over
A of (m_i I - 1 1^T), so exact integer noise can be added to it (Xiao, He, Zhang and Kifer, NeurIPS
2023). Proofs are in proofs/residuals, M8.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.counting.tally import Counts
from understudy.errors import NotSupported, ParameterError
from understudy.privacy.accounting import events as ev
from understudy.privacy.noise.samplers import (
    LARGEST_WIDE_SIGMA,
    SMALLEST_FAST_SIGMA,
    Noise,
    round_sigma_up,
)
from understudy.privacy.requests import check_sizes, exact_number
from understudy.privacy.verbs.base import Priced, Public, Verb, read
from understudy.queries.base import Neighbours
from understudy.queries.marginal import Marginal

# columns whose subsets are all tried when the worst pair of records is looked for
MOST_TOGETHER = 16
# with more columns, so many blocks of so many are tried instead
BLOCK, BLOCKS, WIDEST_IN_BLOCKS = 12, 400, 4
PRIME = 65_537  # 3 generates its multiplicative group
# of fixed-point units in the sum of all weights: fine enough, and nothing overflows in 64 bits
BITS = 58


@dataclass(frozen=True)
class Residual:
    """A residual with noise, as whole numbers: ``counts`` is Xi_A x_A plus noise of ``sigma``.
    Released, safe to show.
    """

    batch: Marginal
    counts: np.ndarray = field(repr=False)
    sigma: Fraction


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Residuals(Verb[list[Residual]]):
    """What each set of columns says beyond its subsets, in whole numbers with noise of these
    sigmas: one joint charge (M8).
    """

    batches: Sequence[Marginal]
    sigmas: Sequence[Fraction]

    name: ClassVar[str] = "measure_residuals"

    def priced(self, public: Public) -> Priced[list[Residual]]:
        copies = tuple(map(public.own, self.batches))
        check_sizes(copies)
        batches = [batch for batch in copies if isinstance(batch, Marginal)]
        if len(batches) != len(copies):
            raise ParameterError(
                "Residuals are of whole marginals, written for the table's own schema."
            )
        sigmas = check_residuals(batches, tuple(self.sigmas), public.shape)

        def answer(exact: Sequence[Counts], noise: Noise) -> list[Residual]:
            return [
                Residual(
                    batch,
                    contrast(counts.dense(), batch.shape) + noise.gaussian(counts.cells, sigma),
                    sigma,
                )
                for batch, counts, sigma in zip(batches, exact, sigmas, strict=True)
            ]

        event = joint_event(batches, sigmas, public.neighbours)
        return Priced(events=(event,), reads=read(batches), answer=answer)


def contrast(table: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Xi_A applied to a flat table, one axis at a time: size times each entry minus the sum along
    its axis.

    In 64 bits whatever the counts are kept in: 32 would wrap before the noise, where one row could
    move a value by 2^32.
    """
    centred = table.astype(np.int64).reshape(shape)
    for axis, size in enumerate(shape):
        centred = size * centred - centred.sum(axis=axis, keepdims=True)
    return centred.reshape(-1)


def sensitivity(batch: Marginal) -> int:
    """Squared length of any column of Xi_A: what one row adds (proofs/residuals, M8)."""
    return math.prod(size * (size - 1) for size in batch.shape)


def joint_event(
    batches: Sequence[Marginal], sigmas: Sequence[Fraction], neighbours: Neighbours
) -> ev.JointGaussian:
    """The one charge for residuals measured together."""
    return ev.JointGaussian(
        what=f"measure residuals of {len(batches):,} marginals",
        sigmas_squared=tuple(sigma**2 for sigma in sigmas),
        l2_in_sigmas=joint_l2(batches, sigmas, neighbours),
    )


def check_residuals(
    batches: Sequence[Marginal], sigmas: Sequence[Fraction], shape: tuple[int, ...]
) -> list[Fraction]:
    """The sigmas on the sampler's grid; refuses what has no residual or too much noise."""
    if not batches or len(batches) != len(sigmas):
        raise ParameterError("Residuals need at least one marginal, and a sigma for each.")
    for batch in batches:
        # The joint bound relies on one row having the same code in every table, so shapes must be
        # the schema's, not only sizes.
        if (
            len(set(batch.positions)) != len(batch.positions)
            or any(not 0 <= p < len(shape) for p in batch.positions)
            or batch.shape != tuple(shape[p] for p in batch.positions)
        ):
            raise ParameterError(
                "Residuals are of whole marginals, written for the table's own schema."
            )
        if 1 in batch.shape:
            raise ParameterError("A column with a single value has no residual; leave it out.")
    exact = [exact_number(sigma) if isinstance(sigma, Fraction) else None for sigma in sigmas]
    if any(sigma is None or sigma <= 0 for sigma in exact):
        raise ParameterError("The sigmas of residuals are exact fractions above 0.")
    grid_sigmas = [round_sigma_up(max(s, SMALLEST_FAST_SIGMA)) for s in exact if s is not None]
    if max(grid_sigmas) > LARGEST_WIDE_SIGMA:
        raise NotSupported(
            f"A residual would need noise of sigma {float(max(grid_sigmas)):.3g}, beyond"
            f" {LARGEST_WIDE_SIGMA:.3g}; use fewer columns, wider bins or a larger budget."
        )
    return grid_sigmas


# ---------------------------------------------------------------------- the joint price


def joint_l2(
    batches: Sequence[Marginal], sigmas: Sequence[Fraction], neighbours: Neighbours
) -> Fraction:
    """Bound on the sum over residuals of |change|^2 / sigma^2 between neighbours.

    Adding a row adds w_A = prod m_i (m_i - 1) / sigma_A^2 for every A. Replacing one by another
    that differs in the columns S adds 2 w_A (1 - prod over A and S of -1/(m_i - 1)); the worst S is
    found exactly for up to 16 columns, and bounded block by block beyond.
    """
    weights, scale = _in_units(
        [
            (sensitivity(batch) * s.denominator**2, s.numerator**2)
            for batch, s in zip(batches, sigmas, strict=True)
        ]
    )
    if neighbours is Neighbours.ADD_REMOVE_ONE:
        return sum(weights) / scale
    sizes = {
        p: size for batch in batches for p, size in zip(batch.positions, batch.shape, strict=True)
    }
    whole: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for batch, weight in zip(batches, weights, strict=True):
        if batch.positions:
            whole[batch.columns] += weight
    return 2 * _worst_swap(whole, sizes) / scale if whole else Fraction(0)


def _in_units(ratios: Sequence[tuple[int, int]]) -> tuple[list[int], Fraction]:
    """Ratios rounded up to whole multiples of 1/scale, a power of two: a sum of exact ratios would
    have thousands of digits.

    The sum of all is about 2^BITS units.
    """
    shift = 2 * BITS - max(top.bit_length() - bottom.bit_length() for top, bottom in ratios)
    fine = [
        -(-(top << shift) // bottom) if shift >= 0 else -(-top // (bottom << -shift))
        for top, bottom in ratios
    ]
    coarser = sum(fine).bit_length() - BITS
    return [-(-weight >> coarser) for weight in fine], Fraction(2) ** (shift - coarser)


def _worst_swap(weights: Mapping[tuple[int, ...], int], sizes: Mapping[int, int]) -> int:
    """Bound on sum_A w_A (1 - prod over A and S of -1/(m_i - 1)) over all sets S of columns, in
    units.

    Every set's weight is shared equally by the blocks of columns that hold it, and each block may
    have a worst S of its own.
    """
    widest = max(map(len, weights))
    blocks = _blocks(sorted(sizes), widest)
    wide = len(blocks[0]) if blocks else 0
    inside = [
        (chosen, sum(1 << j for j in chosen))
        for k in range(1, widest + 1)
        for chosen in itertools.combinations(range(wide), k)
    ]
    # where a set is: (block, the set as bits)
    places: defaultdict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for i, block in enumerate(blocks):
        for chosen, bits in inside:
            columns = tuple([block[j] for j in chosen])
            if columns in weights:
                places[columns].append((i, bits))
    kernel = np.zeros((len(blocks), 1 << wide), np.int64)
    alone = 0
    for columns, weight in weights.items():
        for i, bits in places[columns]:
            kernel[i, bits] = -(-weight // len(places[columns]))
        # by itself a set does worst when its smallest column alone changes: 1 + 1/(m - 1)
        if not places[columns]:
            smallest = min(sizes[c] for c in columns)
            alone += -(-weight * smallest // (smallest - 1))
    return alone + sum(
        _worst_in_block(row, [sizes[c] for c in block])
        for row, block in zip(kernel, blocks, strict=True)
    )


def _blocks(columns: list[int], widest: int) -> list[tuple[int, ...]]:
    """All columns if they are few; else sets of them in which small sets occur about equally often.
    Any choice gives a true bound.
    """
    if len(columns) <= MOST_TOGETHER:
        return [tuple(columns)]
    if widest > WIDEST_IN_BLOCKS:
        return []
    blocks = []
    for turn in range(1, BLOCKS + 1):
        step = pow(3, turn, PRIME)
        shuffled = sorted(((c + 1) * step % PRIME, c) for c in columns)
        blocks.append(tuple(sorted(c for _, c in shuffled[:BLOCK])))
    return blocks


def _worst_in_block(kernel: np.ndarray, sizes: Sequence[int]) -> int:
    """The largest value over all S, exactly but for rounding, which is added: one butterfly a
    column, in integers.
    """
    total = int(kernel.sum())
    for i, size in enumerate(sizes):
        halves = kernel.reshape(-1, 2, 1 << i)
        without, within = halves[:, 0], halves[:, 1]
        kernel = np.stack([without + within, without + -within // (size - 1)], axis=1).reshape(-1)
    return total - int(kernel.min()) + len(kernel)
