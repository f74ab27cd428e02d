"""One system on one table, in a process of its own: what the suite rivals starts.

    python bench/rivals_child.py JOB.json

A job names the system, its settings, epsilon and delta, a file of integer codes, the public
domain and the workload. The child writes the synthetic codes and what it knows of its own
accounting beside the job. It runs under the interpreter of whichever environment holds the
system, so it imports nothing but NumPy until it knows which one that is.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

Made = tuple[np.ndarray, dict[str, Any]]


def understudy(job: dict[str, Any], codes: np.ndarray) -> Made:
    import pyarrow as pa

    import understudy as us

    domain = job["domain"]
    schema = us.Schema.from_domain(domain)
    result = us.release(
        pa.table({column: codes[:, i] for i, column in enumerate(domain)}),
        schema=schema,
        workload=us.explicit(schema, columns=[tuple(part) for part in job["workload"]]),
        epsilon=job["epsilon"],
        delta=Fraction(job["delta"]),
        neighbours="add-remove-one",
        **job["settings"],
    )
    rows = np.column_stack([result.synthetic[column].to_numpy() for column in domain])
    return rows, {
        "rho": float(Fraction(result.manifest["budget"]["rho"])),
        "note": result.manifest["mechanism"]["name"],
        "alpha": result.certificate.alpha,
    }


def _dpmm(kind: str, job: dict[str, Any], codes: np.ndarray, **fit: Any) -> Made:
    """dpmm's models without its pipeline, whose binning would look at the data."""
    import dpmm.models.aim
    import dpmm.models.mst
    import pandas as pd

    model = {"mst": dpmm.models.mst.MSTGM, "aim": dpmm.models.aim.AIMGM}[kind](
        epsilon=job["epsilon"], delta=float(Fraction(job["delta"])), n_jobs=1, **job["settings"]
    )
    model.set_domain(job["domain"])
    model.generator.fit(pd.DataFrame(codes, columns=list(job["domain"])), **fit)
    frame = model.generate()  # as many rows as it estimates: n is private under add-remove-one
    return frame[list(job["domain"])].to_numpy(), {
        "rho": float(model.generator.rho),
        "note": f"{sum(len(c) > 1 for c in model.generator.cliques)} marginals beyond the 1-ways",
    }


def dpmm_mst(job: dict[str, Any], codes: np.ndarray) -> Made:
    return _dpmm("mst", job, codes)


def dpmm_aim(job: dict[str, Any], codes: np.ndarray) -> Made:
    return _dpmm("aim", job, codes, W=[(tuple(part), 1.0) for part in job["workload"]])


def _opendp(algorithm: Any, job: dict[str, Any], codes: np.ndarray) -> Made:
    """OpenDP's contingency tables; cuts give it the public domain, keys would add a missing value."""
    import opendp.prelude as dp
    import polars as pl

    domain = job["domain"]
    context = dp.Context.compositor(
        data=pl.LazyFrame(
            {column: codes[:, i].astype(np.int64) for i, column in enumerate(domain)}
        ),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=job["rho"]),
    )
    cuts = {column: list(range(size - 1)) for column, size in domain.items()}
    table = (
        context.query(rho=job["rho"]).contingency_table(cuts=cuts, algorithm=algorithm).release()
    )
    frame = table.model.synthetic_data(None, "round").df
    measured = sum(len(m.clique) > 1 for m in table.marginals.flatten())
    return np.column_stack([np.asarray(frame[column]) for column in domain]), {
        "rho": job["rho"],
        "note": f"{measured} marginals beyond the 1-ways",
    }


def opendp_mst(job: dict[str, Any], codes: np.ndarray) -> Made:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return _opendp(dp.mbi.MST(**job["settings"]), job, codes)


def opendp_aim(job: dict[str, Any], codes: np.ndarray) -> Made:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return _opendp(
        dp.mbi.AIM(
            queries=[dp.mbi.Count(tuple(part)) for part in job["workload"]], **job["settings"]
        ),
        job,
        codes,
    )


# by the names that a job may say
SYSTEMS: dict[str, Callable[[dict[str, Any], np.ndarray], Made]] = {
    "understudy": understudy,
    "dpmm-mst": dpmm_mst,
    "dpmm-aim": dpmm_aim,
    "opendp-mst": opendp_mst,
    "opendp-aim": opendp_aim,
}


def main() -> None:
    path = Path(sys.argv[1])
    job = json.loads(path.read_text())
    resource.setrlimit(resource.RLIMIT_CPU, (job["limit"], job["limit"] + 5))
    rows, facts = SYSTEMS[job["system"]](job, np.load(job["codes"], allow_pickle=False))
    np.save(path.with_suffix(".npy"), rows.astype(np.int32))
    path.with_suffix(".facts").write_text(json.dumps(facts))
    path.with_suffix(".status").write_text(Path("/proc/self/status").read_text())  # its peak memory


if __name__ == "__main__":
    main()
