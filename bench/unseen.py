"""Does the public rule of arp choose well on tables that no constant was ever set on?

    python -m bench.unseen [--runs 3] [--epsilon 0.1 1]

KDD Cup 1999 (50,000 of its rows by a public seed, every column coded by fixed rules that look at no value twice), and an
invented table whose columns depend on each other through hidden classes. 64 random 3-way marginals each. The rule's own choice is
shown beside both of the ways it chooses between, and beside gaussian. Run it, but do not set constants by it.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import understudy as us
from bench.accuracy import SHARED, measuring_stick
from bench.scaling import invented
from understudy.mechanisms.base import make

PEOPLE = 50_000
LEVELS = 20  # of a number: 0, then powers of two
NAMES = 12  # of a column of words: hashed into so many, because no list of them is public


def kdd(everybody: bool = False) -> tuple[pd.DataFrame, dict[str, int]]:
    """Numbers by powers of two, shares by twentieths, words by a fixed hash."""
    frame = pd.read_parquet(SHARED / "data" / "kdd99" / "kdd99.parquet")
    frame = frame if everybody else frame.sample(PEOPLE, random_state=0)
    coded, domain = {}, {}
    for name in frame.columns:
        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            coded[name] = pd.util.hash_array(column.astype(str).to_numpy(object)) % NAMES
            domain[name] = NAMES
        elif name.endswith("_rate"):
            coded[name], domain[name] = np.clip(np.floor(column.to_numpy(float) * LEVELS), 0, LEVELS).astype(int), LEVELS + 1
        else:
            coded[name] = np.clip(np.floor(np.log2(np.maximum(column.to_numpy(float), 0) + 1)), 0, LEVELS - 1).astype(int)
            domain[name] = LEVELS
    return pd.DataFrame(coded).astype(np.int64), domain


def hidden() -> tuple[pd.DataFrame, dict[str, int]]:
    table, schema = invented(PEOPLE, 15, seed=7)
    return table.to_pandas().astype(np.int64), dict(zip(schema.names, schema.shape, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0])
    asked = parser.parse_args()
    stick, console = measuring_stick(), Console(width=140)
    table = Table("table", "epsilon", "mechanism", "max", "mean", "tv", title=f"64 3-way marginals, replace-one, mean of {asked.runs} runs")
    ways = {
        "auto": make("arp"),
        "arp at once": make("arp", {"adaptive": False}),
        "arp in rounds": make("arp", {"adaptive": True}),
        "gaussian": make("gaussian"),
    }
    for name, make_table in (("KDD99", kdd), ("invented", hidden)):
        frame, domain = make_table()
        schema = us.Schema.from_domain(domain)
        columns = stick.workload(domain, 3, 64, 0)
        work = us.explicit(schema, columns=columns)
        for epsilon in asked.epsilon:
            for way, mechanism in ways.items():
                found = []
                for _ in range(asked.runs):
                    made = us.release(frame, schema=schema, epsilon=epsilon, mechanism=mechanism, workload=work)
                    errors = stick.errors(frame, made.synthetic.to_pandas(), domain, columns)
                    found.append([errors["max"], errors["mean"], errors["tv"]])
                top, mean, tv = np.mean(found, axis=0)
                table.add_row(name, str(epsilon), way, f"{top:.4f}", f"{mean:.2e}", f"{tv:.4f}")
                console.print(name, epsilon, way, f"{top:.4f} {mean:.2e} {tv:.4f}", style="dim")
    console.print(table)


if __name__ == "__main__":
    main()
