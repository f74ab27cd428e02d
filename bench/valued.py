"""Rows beside their source, single columns by their own values and not by bins."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import understudy as us
from bench import sticks, tables
from bench.clock import clock
from bench.coded import Coded
from bench.grid import Line, Point
from bench.releases import exact, facts, warm_up

BINS = 50  # of equal mass
SPIKE = 200  # people who have one value
KEPT = 0.5  # of them, near that value: then the spike is there
NEAR = 1e-3  # of the range of a column: a cell of a fine grid


def source(name: str) -> tuple[pa.Table, us.Schema]:
    """The demo's people, ADULT or the hospital's visits, as somebody would release them."""
    if name == "demo":
        from understudy.api.demo import population, schema

        return population(), schema()
    if name == "adult-raw":
        file, described = tables.paths(name)
        return pyarrow.csv.read_csv(file), adult_schema(json.loads(described.read_text()))
    read, schema = tables.diabetes().read or (None, None)
    assert read is not None and schema is not None
    return read, schema


def adult_schema(columns: dict[str, dict[str, Any]]) -> us.Schema:
    """The description that lies beside ADULT, as a Table Schema."""
    fields: list[dict[str, Any]] = []
    block: dict[str, dict[str, Any]] = {}
    for name, said in columns.items():
        if said["kind"] == "numeric":
            bounds = {"minimum": said["min"], "maximum": said["max"]}
            kind = "integer" if said["integer"] else "number"
            fields.append({"name": name, "type": kind, "constraints": bounds})
            block[name] = {"bins": said["bins"]}
        else:
            listed = {"enum": said["categories"]}
            fields.append({"name": name, "type": "string", "constraints": listed})
            block[name] = {"missing": "missing_code" in said}
    return us.Schema.from_dict({"fields": fields, "understudy": {"columns": block}})


def numbers(column: pa.ChunkedArray, low: float, high: float) -> np.ndarray:
    """What is there, as numbers within bounds; of a moment, days."""
    there = column.drop_null()
    if pa.types.is_string(there.type):
        there = pa.chunked_array([[one for one in there.to_pylist() if one not in ("", "?")]])
    if pa.types.is_timestamp(there.type) or pa.types.is_date(there.type):
        return there.to_numpy().astype("M8[s]").astype(np.float64) / 86400
    return np.clip(there.to_numpy().astype(np.float64), low, high)


def beside(real: np.ndarray, made: np.ndarray, span: float) -> Line:
    """How far the values of one column are off."""
    own = np.unique(np.concatenate([real, made]))
    shares = [
        np.bincount(np.searchsorted(own, one), minlength=len(own)) / len(one)
        for one in (real, made)
    ]
    gap = shares[1] - shares[0]
    sums = np.concatenate([[0.0], np.cumsum(gap)])
    cuts = np.unique(np.quantile(real, np.linspace(0, 1, BINS + 1)[1:-1]))
    apart = np.bincount(np.searchsorted(cuts, own, side="right"), gap, len(cuts) + 1)
    counts = np.round(shares[0] * len(real)).astype(np.int64)
    spikes = np.flatnonzero(counts >= SPIKE)
    near = [
        (np.abs(made - own[i]) <= NEAR * span).sum() * len(real) / len(made) >= KEPT * counts[i]
        for i in spikes
    ]
    return {
        "prefix": float(np.abs(sums).max()),
        "interval": float(sums.max() - sums.min()),
        "tv_own": float(np.abs(gap).sum() / 2),
        "tv_50": float(np.abs(apart).sum() / 2),
        "mean_off": float(abs(made.mean() / real.mean() - 1)),
        "sd_off": float(abs(made.std() / real.std() - 1)),
        "spikes": len(spikes),
        "spikes_lost": int(len(spikes) - sum(near)),
    }


def by_values(point: Point) -> list[Line]:
    """A line for each column of numbers or moments, and one for the cells of all pairs."""
    warm_up(point.mechanism)
    table, schema = source(point.data)
    with clock() as spent:
        released = us.release(
            table,
            schema=schema,
            epsilon=exact(point.epsilon),
            mechanism=point.mechanism,
            seed=point.seed,
        )
    lines: list[Line] = []
    for column in schema:
        if column.kind not in ("integer", "real", "date", "datetime"):
            continue
        low, high = column.edges[0], column.edges[-1] - (column.kind == "integer")
        real, made = (numbers(one[column.name], low, high) for one in (table, released.synthetic))
        units = {"datetime": 86400}.get(column.kind, 1)
        lines.append({"column": column.name, **beside(real, made, (high - low) / units)})
    codes = schema.encode(table)
    domain = dict(zip(schema.names, schema.shape, strict=True))
    whole, rows = Coded(codes, domain), Coded(released.codes, domain)
    pairs = sticks.cells(whole, rows, sticks.marginals(whole, "2-way"))
    return [*lines, {"column": "all pairs", **spent.line, **facts(released), **pairs}]
