"""The generator network: random vectors in, a distribution for every column out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from understudy.errors import NotSupported, ParameterError
from understudy.game.players.relaxed import MOST_NUMBERS, Adam
from understudy.game.players.simplex import PARAMETERISATIONS
from understudy.queries.relaxed import Chances
from understudy.schema import Schema

MOST_UNITS = 100_000  # of a layer: large enough for any table, and a slip of the pen is refused
SOFTMAX = PARAMETERISATIONS["softmax"]  # every value keeps a chance, and so a slope to learn from


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a network is.

    Attributes:
        latents: random vectors, each of which becomes one relaxed row.
        entries: numbers in each of them.
        hidden: units in each of the two hidden layers.
    """

    latents: int
    entries: int
    hidden: int


def check_network(name: str, size: Size, rate: float, schema: Schema) -> None:
    """Refuse, in a sentence and before any budget is touched, a network that cannot be made or
    trained.
    """
    for what, number in vars(size).items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_UNITS:
            raise ParameterError(
                f"{name} needs {what} to be a whole number from 1 to {MOST_UNITS:,}."
            )
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate <= 1:
        raise ParameterError(f"{name} needs a learning rate above 0 and at most 1.")
    width = sum(schema.shape)
    if width * (size.latents + size.entries + 2 * size.hidden) > MOST_NUMBERS:
        raise NotSupported(
            f"A network of {size.latents:,} latents and {size.hidden:,} hidden units for columns of"
            f" {width:,} values in all has more than {MOST_NUMBERS:,} numbers; use wider bins, or"
            " fewer latents or hidden units."
        )


class Network:
    """Two hidden layers, each beside what went into it, and a softmax for every column.

    The vectors are drawn once: the distribution it stands for is the average over them, so its
    answers are exact and have slopes. With :func:`one_thread` and a seeded ``rng`` two runs on one
    machine are the same; the BLAS of another machine may round otherwise.

    Attributes:
        parameters: all weights and biases, in one row.
    """

    def __init__(self, schema: Schema, size: Size, rng: np.random.Generator) -> None:
        self._starts = np.concatenate([[0], np.cumsum(schema.shape)]).astype(np.int64)
        # What flows through: the vectors, then what each hidden layer makes of all above it.
        self._flow = np.empty((size.entries + 2 * size.hidden, size.latents), np.float32)
        self._flow[: size.entries] = rng.standard_normal((size.entries, size.latents), np.float32)
        heights = [size.hidden, size.hidden, int(self._starts[-1])]
        self._inputs = [size.entries, size.entries + size.hidden, size.entries + 2 * size.hidden]
        self._shapes = [
            *zip(heights, self._inputs, strict=True),
            *((height, 1) for height in heights),
        ]
        self.parameters = np.zeros(
            (1, sum(height * width for height, width in self._shapes)), np.float32
        )
        self._weights, self._biases = self._layers(self.parameters)
        for weight in self._weights:
            weight[:] = rng.standard_normal(weight.shape, np.float32) / math.sqrt(weight.shape[1])

    def chances(self) -> Chances:
        """The relaxed rows that it stands for now."""
        for layer in (0, 1):
            units = self._flow[self._units(layer)]
            np.matmul(self._weights[layer], self._flow[: self._inputs[layer]], out=units)
            units += self._biases[layer]
            np.maximum(units, 0, out=units)
        free = self._weights[2] @ self._flow
        free += self._biases[2]
        for span in self._spans():
            SOFTMAX.chances(free[span], free[span])
        return Chances(free, self._starts)

    def pull(self, at: Chances, slopes: np.ndarray) -> np.ndarray:
        """Slopes of its parameters, from slopes of the chances it gave last, which are used up."""
        for span in self._spans():
            SOFTMAX.pull(at.values[span], slopes[span])
        gradient, of_flow = np.empty_like(self.parameters), np.zeros_like(self._flow)
        of_weights, of_biases = self._layers(gradient)
        for layer in (2, 1, 0):
            if layer < 2:
                units = self._units(layer)
                slopes = of_flow[units] * (self._flow[units] > 0)
            np.matmul(slopes, self._flow[: self._inputs[layer]].T, out=of_weights[layer])
            np.sum(slopes, axis=1, keepdims=True, out=of_biases[layer])
            of_flow[: self._inputs[layer]] += self._weights[layer].T @ slopes
        return gradient

    def exponential(self, mean: float, rng: np.random.Generator) -> np.ndarray:
        """Exponential noise for every parameter."""
        return rng.exponential(mean, self.parameters.shape).astype(np.float32)

    def adam(self, rate: float) -> Adam:
        return Adam(self.parameters, rate, epsilon=1e-8)

    def _layers(self, row: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Weights and biases of the three layers: parts of a row of parameters or of slopes."""
        ends = np.cumsum([height * width for height, width in self._shapes])
        batches = [
            batch.reshape(shape)
            for batch, shape in zip(np.split(row[0], ends[:-1]), self._shapes, strict=True)
        ]
        return batches[:3], batches[3:]

    def _units(self, layer: int) -> slice:
        """Where in the flow a hidden layer's units are."""
        return slice(self._inputs[layer], self._inputs[layer + 1])

    def _spans(self) -> Iterator[slice]:
        return (slice(a, b) for a, b in zip(self._starts[:-1], self._starts[1:], strict=True))


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS on one thread, for a whole play.

    Sums are taken in one order, and no threads wait for work as small as this.
    """
    with threadpool_limits(1, "blas"):
        yield
