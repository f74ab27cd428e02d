"""Exact noise on integers, from the operating system's secure generator and nothing else.

Samplers follow Canonne, Kamath and Steinke (2020): every random decision is a comparison of
uniform bits with a rational number, refined digit by digit until it is settled, so the law is
exactly the stated one. The numba kernels consume a stream of 16-bit words. When a buffer runs out
in the middle of a value, that value is started again *from its own first word* in a longer buffer:
the stream, and so the law, is the same as if the buffer had been endless.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from understudy.errors import ParameterError
from understudy.runtime.compiled import kernel

DIGIT = 16  # bits a word
# sigma = SIGMA_STEPS..2*SIGMA_STEPS-1 halvings of a unit below SIGMA_STEPS, whole numbers above: a
# relative step of at most 1/1024, small enough integers for exact 64-bit arithmetic
# (proofs/noise, N3).
SIGMA_STEPS = 1 << 10
LARGEST_FAST_SIGMA = 1 << 23  # 2 sigma^2 <= 2^47, which a coin shifts by 16 bits in 63
SMALLEST_FAST_SIGMA = Fraction(1, 4)  # below it the same numbers would pass 2^47
LARGEST_WIDE_SIGMA = 1 << 46  # a coin's denominator stays below 2^47 here, too
LARGEST_FAST_SCALE = 1 << 31  # U below t is drawn from 32 bits
SAFE_ROOT = 1 << 31  # numbers below it can be squared in 64 bits
INVERSE_E_WORDS = 48  # 768 bits of 1/e; a tie on all of them has probability 2^-768

Entropy = Callable[[int], bytes]  # n bytes of secure randomness


class Noise:
    """The samplers. ``entropy`` is replaced in tests only; production has no seed to give."""

    def __init__(self, entropy: Entropy = os.urandom) -> None:
        self._entropy = entropy

    # ------------------------------------------------------------------ whole numbers

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound), any size, by rejection."""
        bits = (bound - 1).bit_length()
        while True:
            value = int.from_bytes(self._entropy((bits + 7) // 8), "little") & ((1 << bits) - 1)
            if value < bound:
                return value

    def uniform(self, size: int, bound: int) -> np.ndarray:
        """``size`` independent uniform integers in [0, bound), bound at most 2^62, by rejection."""
        bits = max(1, (bound - 1).bit_length())
        numbers = np.zeros(0, np.int64)
        while len(numbers) < size:
            words = np.frombuffer(self._entropy(8 * (2 * (size - len(numbers)) + 16)), np.uint64)
            fresh = (words >> np.uint64(64 - bits)).astype(np.int64)
            numbers = np.concatenate([numbers, fresh[fresh < bound]])
        return numbers[:size]

    # ------------------------------------------------------------------ discrete Gaussian

    def gaussian(self, size: int, sigma: Fraction) -> np.ndarray:
        """``size`` independent draws of N_Z(0, sigma^2): P(k) ~ exp(-k^2 / (2 sigma^2))."""
        if sigma <= 0:
            raise ParameterError("Gaussian noise needs a positive sigma.")
        if sigma.denominator == 1 and LARGEST_FAST_SIGMA < sigma <= LARGEST_WIDE_SIGMA:
            return self._run(_wide_gaussian_kernel, size, 48, np.asarray([int(sigma)], np.int64))
        if sigma != round_sigma_up(sigma) or not SMALLEST_FAST_SIGMA <= sigma <= LARGEST_FAST_SIGMA:
            return np.asarray([self._slow_gaussian(sigma * sigma) for _ in range(size)], np.int64)
        if sigma.denominator == 1:
            t = int(sigma)
            scale, shift, divisor = 1, t, 2 * t * t
        else:
            a, halvings = sigma.numerator, sigma.denominator
            t = math.ceil(sigma)
            scale, shift, divisor = halvings**2 * t, a * a, 2 * a * a * halvings**2 * t * t
        # |Y| beyond `limit` would overflow when squared; such a proposal must survive `certain`
        # coin flips of probability 1/e before its exact fate even matters.
        limit = (SAFE_ROOT + shift) // scale - 1
        certain = (limit * scale - shift) ** 2 // divisor
        return self._run(
            _gaussian_kernel,
            size,
            40,
            np.asarray([t, scale, shift, divisor, limit, certain], np.int64),
        )

    def _slow_gaussian(self, variance: Fraction) -> int:
        t = math.isqrt(variance.numerator // variance.denominator) + 1
        while True:
            y = self._slow_laplace(Fraction(t))
            if self.bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance)):
                return y

    def above(self, size: int, sigma: Fraction, threshold: int) -> np.ndarray:
        """Those of ``size`` proposals that are accepted, with the law of N_Z(0, sigma^2) beyond
        ``threshold`` (proofs/noise, N7).
        """
        scale = sigma**2 / (threshold + 1)
        if (
            max(scale.numerator, scale.denominator) >= LARGEST_FAST_SCALE
            or sigma.numerator > LARGEST_FAST_SIGMA
        ):
            steps = np.asarray([self._slow_step(scale, sigma) for _ in range(size)], np.int64)
        else:
            a, halvings = sigma.numerator, sigma.denominator
            limit = SAFE_ROOT // halvings - 1
            certain = (limit * halvings) ** 2 // (2 * a * a)
            parameters = [
                scale.numerator,
                halvings,
                0,
                2 * a * a,
                limit,
                certain,
                scale.denominator,
            ]
            steps = self._run(_step_kernel, size, 24, np.asarray(parameters, np.int64))
        return threshold + 1 + steps[steps >= 0]

    def _slow_step(self, scale: Fraction, sigma: Fraction) -> int:
        step = self._slow_geometric(scale)
        return step if self.bernoulli_exp(step**2 / (2 * sigma**2)) else -1

    # ------------------------------------------------------------------ discrete Laplace

    def laplace(self, size: int, scale: Fraction) -> np.ndarray:
        """``size`` independent draws with P(k) proportional to exp(-|k| / scale)."""
        if scale <= 0:
            raise ParameterError("Laplace noise needs a positive scale.")
        if max(scale.numerator, scale.denominator) >= LARGEST_FAST_SCALE:
            return np.asarray([self._slow_laplace(scale) for _ in range(size)], np.int64)
        return self._run(
            _laplace_kernel, size, 24, np.asarray([scale.numerator, scale.denominator, 1], np.int64)
        )

    def geometric(self, size: int, scale: Fraction) -> np.ndarray:
        """``size`` independent draws with P(k) proportional to exp(-k / scale), k >= 0."""
        if scale <= 0:
            raise ParameterError("Geometric noise needs a positive scale.")
        if max(scale.numerator, scale.denominator) >= LARGEST_FAST_SCALE:
            return np.asarray([self._slow_geometric(scale) for _ in range(size)], np.int64)
        return self._run(
            _laplace_kernel, size, 24, np.asarray([scale.numerator, scale.denominator, 0], np.int64)
        )

    def _slow_laplace(self, scale: Fraction) -> int:
        while True:
            y = self._slow_geometric(scale)
            negative = self.below(2)
            if not (negative and y == 0):
                return -y if negative else y

    def _slow_geometric(self, scale: Fraction) -> int:
        t, s = scale.numerator, scale.denominator
        while True:
            u = self.below(t)
            if self.bernoulli_exp(Fraction(u, t)):
                break
        v = 0
        while self.bernoulli_exp(Fraction(1)):
            v += 1
        return (u + t * v) // s

    def bernoulli_exp(self, gamma: Fraction) -> bool:
        """True with probability exp(-gamma), gamma >= 0."""
        while gamma > 1:
            if not self.bernoulli_exp(Fraction(1)):
                return False
            gamma -= 1
        k = 1
        while self.below(gamma.denominator * k) < gamma.numerator:
            k += 1
        return k % 2 == 1

    # ------------------------------------------------------------------ feeding the kernels

    def _run(
        self, kernel: Callable[..., None], size: int, words_each: int, parameters: np.ndarray
    ) -> np.ndarray:
        out = np.empty(size, np.int64)
        state = np.zeros(4, np.int64)  # values done, words used by them, status, unused
        words = np.empty(0, np.uint16)
        while state[0] < size:
            fresh = np.frombuffer(
                self._entropy(2 * (words_each * min(int(size - state[0]), 1 << 18) + 4096)),
                np.uint16,
            )
            words = np.concatenate([words[state[1] :], fresh])
            state[1] = 0
            kernel(words, np.zeros(2, np.int64), out, state, parameters, INVERSE_E)
            # probability below 10^-200 whatever the data; nothing was released
            if state[2] == IMPOSSIBLE:
                raise RuntimeError(
                    "The noise sampler met an event that does not happen; run again."
                )
        return out


def round_sigma_up(sigma: Fraction) -> Fraction:
    """The next sigma on the grid that the fast sampler serves; never less noise than asked."""
    if sigma >= SIGMA_STEPS:
        return Fraction(math.ceil(sigma))
    above, below, halvings = sigma.numerator, sigma.denominator, 1
    while above * halvings < SIGMA_STEPS * below:
        halvings *= 2
    return Fraction(-(-above * halvings // below), halvings)


def sqrt_up(x: Fraction) -> Fraction:
    """A rational at or just above the square root of x (within 2^-64 of relative error)."""
    shift = max(0, 128 - x.numerator.bit_length() + x.denominator.bit_length())
    shift += shift % 2
    return Fraction(math.isqrt((x.numerator << shift) // x.denominator) + 1, 1 << (shift // 2))


# ---------------------------------------------------------------------- kernels

EXHAUSTED, IMPOSSIBLE = 1, 2  # why a kernel stopped: out of words, or at what does not happen
# a bare 1 is a type of its own, and helpers would be compiled for it again
ONE, TWO = np.int64(1), np.int64(2)
# geometric steps of a wide proposal: as many succeed with probability exp(-65,536), and t times
# them fits 64 bits
WIDEST = 1 << 16


def _inverse_e() -> np.ndarray:
    with localcontext(Context(prec=300)):
        scaled = int(Decimal(-1).exp() * (1 << (DIGIT * INVERSE_E_WORDS)))
    words = [(scaled >> (DIGIT * i)) & 0xFFFF for i in reversed(range(INVERSE_E_WORDS))]
    return np.asarray(words, np.int64)


INVERSE_E = _inverse_e()  # worked out once, in decimals: no float is that long

# In all kernels ``at`` is a two-element array: the next word to use, and a status that is set when
# words run out. Once it is set every helper returns at once and the caller throws the value away.


@kernel(borrows=True, inner=True)
def _word(words: np.ndarray, at: np.ndarray) -> int:
    if at[0] >= len(words):
        at[1] = EXHAUSTED
        return 0
    value = np.int64(words[at[0]])  # not uint16: it will be shifted
    at[0] += 1
    return value  # type: ignore[return-value]


@kernel(borrows=True, inner=True)
def _bernoulli(words: np.ndarray, at: np.ndarray, numerator: int, divisor: int) -> bool:
    """True with probability numerator/divisor, for 0 <= numerator <= divisor < 2^47."""
    rest = numerator
    while at[1] == 0:
        scaled = rest << DIGIT
        digit = scaled // divisor
        word = _word(words, at)
        if word != digit:
            return word < digit
        rest = scaled - digit * divisor
        if rest == 0:
            return False
    return False


@kernel(borrows=True, inner=True)
def _bernoulli_inverse_e(words: np.ndarray, at: np.ndarray, inverse_e: np.ndarray) -> bool:
    for i in range(len(inverse_e)):
        word = _word(words, at)
        if at[1] != 0:
            return False
        if word != inverse_e[i]:
            return word < inverse_e[i]
    at[1] = IMPOSSIBLE
    return False


@kernel(borrows=True, inner=True)
def _bernoulli_exp_fraction(
    words: np.ndarray, at: np.ndarray, numerator: int, divisor: int
) -> bool:
    """True with probability exp(-numerator/divisor), for 0 <= numerator <= divisor < 2^47."""
    k = ONE
    while at[1] == 0:
        # Bernoulli(gamma/k) as two independent coins, so that divisor*k never overflows.
        if not _bernoulli(words, at, numerator, divisor):
            break
        if k > 1 and not _bernoulli(words, at, ONE, k):
            break
        k += 1
    return k % 2 == 1


@kernel(borrows=True, inner=True, inline="always")
def _below(words: np.ndarray, at: np.ndarray, bound: int) -> int:
    """Uniform in [0, bound), bound < 2^32: 32 bits, the uneven top rejected."""
    span = np.int64(1) << 32
    usable = span - span % bound
    while at[1] == 0:
        value = (_word(words, at) << DIGIT) | _word(words, at)
        if value < usable:
            return value % bound
    return 0


@kernel(borrows=True, inner=True, inline="always")
def _geometric_value(
    words: np.ndarray, at: np.ndarray, t: int, s: int, inverse_e: np.ndarray
) -> int:
    """P(y) proportional to exp(-y s/t), y >= 0."""
    while at[1] == 0:
        u = _below(words, at, t)
        if _bernoulli_exp_fraction(words, at, u, t):
            v = 0
            while _bernoulli_inverse_e(words, at, inverse_e):
                v += 1
            return (u + t * v) // s
    return 0


@kernel(borrows=True, inner=True, inline="always")
def _laplace_value(words: np.ndarray, at: np.ndarray, t: int, s: int, inverse_e: np.ndarray) -> int:
    while at[1] == 0:
        y = _geometric_value(words, at, t, s, inverse_e)
        negative = _word(words, at) & 1
        if negative == 0:
            return y
        if y != 0:
            return -y
    return 0


@kernel(borrows=True, inner=True, inline="always")
def _gaussian_accepts(
    words: np.ndarray, at: np.ndarray, size: int, p: np.ndarray, inverse_e: np.ndarray
) -> bool:
    """True with probability exp(-(size*scale - shift)^2 / divisor)."""
    scale, shift, divisor, limit, certain = p[1], p[2], p[3], p[4], p[5]
    if size > limit:
        for _ in range(certain):
            if not _bernoulli_inverse_e(words, at, inverse_e):
                return False
        at[1] = IMPOSSIBLE
        return False
    root = size * scale - shift
    whole, rest = divmod(root * root, divisor)
    for _ in range(whole):
        if not _bernoulli_inverse_e(words, at, inverse_e):
            return False
    return _bernoulli_exp_fraction(words, at, rest, divisor)


@kernel(borrows=True)
def _gaussian_kernel(
    words: np.ndarray,
    at: np.ndarray,
    out: np.ndarray,
    state: np.ndarray,
    p: np.ndarray,
    inverse_e: np.ndarray,
) -> None:
    while state[0] < len(out):
        while at[1] == 0:
            y = _laplace_value(words, at, p[0], ONE, inverse_e)
            if _gaussian_accepts(words, at, abs(y), p, inverse_e):
                break
        if at[1] != 0:
            state[2] = at[1]
            return
        out[state[0]] = y
        state[0] += 1
        state[1] = at[0]


# Whole sigma = t beyond what can be squared in 64 bits. With |Y| = u + t*v the exponent (|Y| - t)^2
# / (2 t^2) falls apart into pieces whose coins have denominators of at most t: nothing is ever
# squared (proofs/noise, N3).


@kernel(borrows=True, inner=True)
def _below_wide(words: np.ndarray, at: np.ndarray, bound: int) -> int:
    """Uniform in [0, bound), bound <= 2^46: 48 bits, the uneven top rejected."""
    span = np.int64(1) << 48
    usable = span - span % bound
    while at[1] == 0:
        value = (_word(words, at) << 2 * DIGIT) | (_word(words, at) << DIGIT) | _word(words, at)
        if value < usable:
            return value % bound
    return 0


@kernel(borrows=True, inner=True)
def _bernoulli_exp_half_square(
    words: np.ndarray, at: np.ndarray, numerator: int, divisor: int
) -> bool:
    """True with probability exp(-(numerator/divisor)^2 / 2), for 0 <= numerator <= divisor < 2^47."""
    k = ONE
    while at[1] == 0:
        if not (
            _bernoulli(words, at, numerator, divisor)
            and _bernoulli(words, at, numerator, divisor)
            and _bernoulli(words, at, ONE, TWO)
        ):
            break
        if k > 1 and not _bernoulli(words, at, ONE, k):
            break
        k += 1
    return k % 2 == 1


@kernel(borrows=True, inner=True)
def _wide_gaussian_accepts(words: np.ndarray, at: np.ndarray, u: int, v: int, t: int) -> bool:
    """True with probability exp(-(u + t*v - t)^2 / (2 t^2)), for 0 <= u < t."""
    if v == 0:
        return _bernoulli_exp_half_square(words, at, t - u, t)
    for _ in range((v - 1) * (v - 1)):
        if not _bernoulli_exp_fraction(words, at, ONE, TWO):
            return False
    for _ in range(v - 1):
        if not _bernoulli_exp_fraction(words, at, u, t):
            return False
    return _bernoulli_exp_half_square(words, at, u, t)


@kernel(borrows=True)
def _wide_gaussian_kernel(
    words: np.ndarray,
    at: np.ndarray,
    out: np.ndarray,
    state: np.ndarray,
    p: np.ndarray,
    inverse_e: np.ndarray,
) -> None:
    t = p[0]
    while state[0] < len(out):
        y = np.int64(0)
        while at[1] == 0:
            u, v = _below_wide(words, at, t), 0
            if not _bernoulli_exp_fraction(words, at, u, t):
                continue
            while _bernoulli_inverse_e(words, at, inverse_e):
                v += 1
                if v > WIDEST:
                    at[1] = IMPOSSIBLE
                    break
            y = u + t * v
            if _word(words, at) & 1:
                if y == 0:
                    continue
                y = -y
            if _wide_gaussian_accepts(words, at, u, v, t):
                break
        if at[1] != 0:
            state[2] = at[1]
            return
        out[state[0]] = y
        state[0] += 1
        state[1] = at[0]


@kernel(borrows=True)
def _laplace_kernel(
    words: np.ndarray,
    at: np.ndarray,
    out: np.ndarray,
    state: np.ndarray,
    p: np.ndarray,
    inverse_e: np.ndarray,
) -> None:
    """Of either sign if p[2] is set, of none otherwise."""
    while state[0] < len(out):
        y = (
            _laplace_value(words, at, p[0], p[1], inverse_e)
            if p[2]
            else _geometric_value(words, at, p[0], p[1], inverse_e)
        )
        if at[1] != 0:
            state[2] = at[1]
            return
        out[state[0]] = y
        state[0] += 1
        state[1] = at[0]


@kernel(borrows=True)
def _step_kernel(
    words: np.ndarray,
    at: np.ndarray,
    out: np.ndarray,
    state: np.ndarray,
    p: np.ndarray,
    inverse_e: np.ndarray,
) -> None:
    """Proposed steps beyond a threshold; -1 for those that are not accepted."""
    while state[0] < len(out):
        y = _geometric_value(words, at, p[0], p[6], inverse_e)
        accepted = _gaussian_accepts(words, at, y, p, inverse_e)
        if at[1] != 0:
            state[2] = at[1]
            return
        out[state[0]] = y if accepted else -1
        state[0] += 1
        state[1] = at[0]


def secure_seed() -> int:
    """A fresh seed for the *public* generator, when the user gives none."""
    return secrets.randbits(63)
