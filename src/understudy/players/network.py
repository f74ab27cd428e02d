"""The generator network: random vectors in, a distribution for every column out.

Torch is imported when a network is made and not before, so that nobody needs it who does not ask for one.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import NotSupported, ParameterError
from understudy.players.relaxed import MOST_NUMBERS
from understudy.players.simplex import PARAMETERISATIONS
from understudy.queries.relaxed import Chances
from understudy.schema import Schema

MOST_UNITS = 100_000
SOFTMAX = PARAMETERISATIONS["softmax"]


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
    """Refuse, in a sentence and before any budget is touched, a network that cannot be made or trained."""
    for what, number in vars(size).items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST_UNITS:
            raise ParameterError(f"{name} needs {what} to be a whole number from 1 to {MOST_UNITS:,}.")
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate <= 1:
        raise ParameterError(f"{name} needs a learning rate above 0 and at most 1.")
    width = sum(schema.shape)
    if width * (size.latents + size.entries + 2 * size.hidden) > MOST_NUMBERS:
        raise NotSupported(
            f"A network of {size.latents:,} latents and {size.hidden:,} hidden units for columns of {width:,} values in all has more than "
            f"{MOST_NUMBERS:,} numbers; use wider bins, or fewer latents or hidden units."
        )
    if importlib.util.find_spec("torch") is None:
        raise NotSupported(f"The mechanism {name} trains a network with PyTorch: pip install 'understudy[gan]'.")


class Network:
    """Two hidden layers, each beside what went into it, and a softmax for every column.

    The vectors are drawn once: the distribution it stands for is the average over them, so its answers are exact and have slopes.
    With :func:`one_thread` and a seed from ``rng`` two runs on one machine are the same; torch does not promise it across machines.
    """

    def __init__(self, schema: Schema, size: Size, rng: np.random.Generator) -> None:
        import torch

        self._torch = torch
        seeded = torch.Generator().manual_seed(int(rng.integers(2**62)))
        self._starts = np.concatenate([[0], np.cumsum(schema.shape)]).astype(np.int64)
        self._latents = torch.randn(size.entries, size.latents, generator=seeded)
        widths = [size.entries, size.entries + size.hidden, size.entries + 2 * size.hidden]
        heights = [size.hidden, size.hidden, int(self._starts[-1])]
        self._weights = [torch.randn(h, w, generator=seeded) / math.sqrt(w) for h, w in zip(heights, widths, strict=True)]
        self._biases = [torch.zeros(h, 1) for h in heights]
        for parameter in self.parameters:
            parameter.requires_grad_()
        self._logits: Any = None

    @property
    def parameters(self) -> list[Any]:
        return [*self._weights, *self._biases]

    def chances(self) -> Chances:
        """The relaxed rows that it stands for now."""
        flow = self._latents
        for weight, bias in zip(self._weights[:-1], self._biases[:-1], strict=True):
            flow = self._torch.cat([flow, self._torch.relu(weight @ flow + bias)])
        self._logits = self._weights[-1] @ flow + self._biases[-1]
        free = self._logits.detach().numpy()
        found = Chances(np.empty_like(free), self._starts)
        for span in self._spans():
            SOFTMAX.chances(free[span], found.values[span])
        return found

    def pull(self, at: Chances, slopes: np.ndarray, more: Sequence[Any] | None = None) -> None:
        """Turn slopes of the chances it gave last into slopes of its parameters, and add ``more`` to these; ``slopes`` is used up."""
        for span in self._spans():
            SOFTMAX.pull(at.values[span], slopes[span])
        for parameter in self.parameters:
            parameter.grad = None
        self._logits.backward(self._torch.from_numpy(slopes))
        for parameter, added in zip(self.parameters, more or (), strict=more is not None):
            parameter.grad += added

    def exponential(self, mean: float, rng: np.random.Generator) -> list[Any]:
        """Exponential noise for every parameter."""
        drawn = (rng.exponential(mean, tuple(parameter.shape)) for parameter in self.parameters)
        return [self._torch.from_numpy(noise.astype(np.float32)) for noise in drawn]

    def state(self) -> list[Any]:
        """Its parameters, copied."""
        return [parameter.detach().clone() for parameter in self.parameters]

    def restore(self, state: list[Any]) -> None:
        with self._torch.no_grad():
            for parameter, kept in zip(self.parameters, state, strict=True):
                parameter.copy_(kept)

    def adam(self, rate: float) -> Any:
        return self._torch.optim.Adam(self.parameters, lr=rate)

    def _spans(self) -> Iterator[slice]:
        return (slice(a, b) for a, b in zip(self._starts[:-1], self._starts[1:], strict=True))


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread, for a whole play: sums in one order, and no threads that wait for work as small as this."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
