"""The model of a release, where its mechanism leaves one: a file that runs nothing.

The file holds the distribution that was arrived at, one number for each value of each column of
each relaxed row. A network's own parameters are not kept: nothing was fitted for other random
vectors than those it was trained on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from understudy.game.fitting.mixture import Mixture
from understudy.queries.relaxed import Chances
from understudy.schema import Schema

MODEL_FILE = "model.safetensors"  # a format of plain arrays, because reading it can run nothing
CLOSE = 1e-3  # how far the chances of a column may be from one, after many sums of 32-bit numbers


def save_model(model: Mixture, file: Path) -> None:
    tensors = {"chances": np.ascontiguousarray(model.chances.values, np.float32)}
    # save_file would let nobody else read it
    file.write_bytes(save(tensors, metadata={"schema": model.schema.digest}))


def load_model(file: Path, schema: Schema) -> Mixture:
    """Raises ValueError for what is no model of this schema."""
    try:
        with safe_open(str(file), framework="numpy") as opened:
            named = opened.metadata() or {}
        tensors = load_file(str(file))
    except SafetensorError:
        raise ValueError("not a safetensors file") from None
    if named.get("schema") != schema.digest:
        raise ValueError("a model of another schema")
    values = tensors.get("chances")
    starts = np.concatenate([[0], np.cumsum(schema.shape)]).astype(np.int64)
    if (
        set(tensors) != {"chances"}
        or values is None
        or values.dtype != np.float32
        or values.ndim != 2
    ):
        raise ValueError("other tensors than a model's")
    if (
        values.shape[0] != starts[-1]
        or not values.shape[1]
        or not np.isfinite(values).all()
        or values.min() < 0
    ):
        raise ValueError("chances of another schema")
    sums = np.add.reduceat(values, starts[:-1], axis=0, dtype=np.float64)
    if np.abs(sums - 1).max() > CLOSE:
        raise ValueError("chances that do not sum to one")
    return Mixture(schema, Chances(np.ascontiguousarray(values), starts))
