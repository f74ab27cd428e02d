"""The program that runs in a child process: reads integer programs from its input, solves them,
writes what it found.

Started by :mod:`understudy.oracles.outside` as a file, not as part of the package, so that starting
it takes no longer than importing the solver. It sees numbers only. Messages are a length and a
NumPy archive, both ways, so nothing is pickled.
"""

from __future__ import annotations

import io
import os
import struct
import sys
import time
from typing import IO, Any

import numpy as np

# words of the messages between a solver's process and ours
OPTIMAL, LIMIT, WRONG = "optimal", "limit", "wrong"
# of CP-SAT's objective: far from its overflow, and far finer than float weights mean anything
WHOLE_RANGE = 2.0**50
FREE = 1e29  # a bound beyond it is none: oracles and rules write 1e30 for that


def send(stream: IO[bytes], **arrays: Any) -> None:
    """Write a message of numbers and texts."""
    plain: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    if any(value.dtype.hasobject for value in plain.values()):  # NumPy would pickle it
        raise ValueError("A message holds numbers and texts, no objects.")
    buffer = io.BytesIO()
    np.savez(buffer, **plain)
    stream.write(struct.pack("<q", buffer.tell()) + buffer.getvalue())
    stream.flush()


def receive(stream: IO[bytes]) -> dict[str, np.ndarray] | None:
    """Read a message, or None at the end."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    with np.load(
        io.BytesIO(stream.read(struct.unpack("<q", head)[0])), allow_pickle=False
    ) as archive:
        return dict(archive)


def solve_highs(m: dict[str, np.ndarray]) -> dict[str, Any]:
    """SciPy's HiGHS; the limit of work is a number of nodes."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    rows = csr_array(
        (m["numbers"], m["indices"], m["starts"]), shape=(len(m["low"]), len(m["gain"]))
    )
    low = np.where(m["low"] < -FREE, -np.inf, m["low"])
    high = np.where(m["high"] > FREE, np.inf, m["high"])
    options = {"node_limit": int(m["work"]), "time_limit": float(m["wall"]), "mip_rel_gap": 0.0}
    result = milp(
        -m["gain"],
        constraints=LinearConstraint(rows, low, high),
        integrality=m["whole"],
        bounds=Bounds(0, 1),
        options=options,
    )
    status = {0: OPTIMAL, 1: LIMIT}.get(result.status, WRONG)
    bound = -result.mip_dual_bound if result.mip_dual_bound is not None else np.inf
    return {"status": status, "x": np.zeros(0) if result.x is None else result.x, "bound": bound}


def solve_cpsat(m: dict[str, np.ndarray]) -> dict[str, Any]:
    """OR-tools' CP-SAT on whole numbers; the limit of work is its deterministic time."""
    from ortools.sat.python import cp_model

    total = float(np.abs(m["gain"]).sum())
    scale = 2.0 ** np.floor(np.log2(WHOLE_RANGE / total)) if total > 0 else 1.0
    gain = np.rint(m["gain"] * scale)
    lost = float(np.abs(m["gain"] - gain / scale).sum())  # by rounding, whatever the record
    model = cp_model.CpModel()
    x = [model.new_bool_var("") for _ in m["gain"]]
    for i in range(len(m["low"])):
        at = slice(int(m["starts"][i]), int(m["starts"][i + 1]))
        total_of = cp_model.LinearExpr.weighted_sum(
            [x[j] for j in m["indices"][at]], [int(a) for a in m["numbers"][at]]
        )
        low = -(2**40) if m["low"][i] < -FREE else int(m["low"][i])
        high = 2**40 if m["high"][i] > FREE else int(m["high"][i])
        model.add_linear_constraint(total_of, low, high)
    model.maximize(cp_model.LinearExpr.weighted_sum(x, [int(g) for g in gain]))
    for j, value in enumerate(m["hint"]):
        model.add_hint(x[j], int(value))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = int(m["seed"]) % 2**31
    solver.parameters.max_deterministic_time = float(m["work"])
    solver.parameters.max_time_in_seconds = float(m["wall"])
    solver.parameters.absolute_gap_limit = solver.parameters.relative_gap_limit = 0.0
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return {
            "status": LIMIT if status == cp_model.UNKNOWN else WRONG,
            "x": np.zeros(0),
            "bound": np.inf,
        }
    values = np.array([solver.value(v) for v in x], np.float64)
    bound = solver.best_objective_bound / scale + lost
    return {"status": OPTIMAL if status == cp_model.OPTIMAL else LIMIT, "x": values, "bound": bound}


def solve_gurobi(m: dict[str, np.ndarray]) -> dict[str, Any]:
    """Gurobi; the limit of work is in its own units."""
    import gurobipy as gurobi
    from scipy.sparse import csr_matrix

    with (
        gurobi.Env(params={"OutputFlag": 0}) as environment,
        gurobi.Model(env=environment) as model,
    ):
        kinds = np.where(m["whole"], "B", "C")
        x = model.addMVar(len(m["gain"]), lb=0.0, ub=1.0, obj=m["gain"], vtype=kinds)
        model.ModelSense = gurobi.GRB.MAXIMIZE
        rows = csr_matrix(
            (m["numbers"], m["indices"], m["starts"]), shape=(len(m["low"]), len(m["gain"]))
        )
        for bounded, sense in ((m["high"] <= FREE, "<"), (m["low"] >= -FREE, ">")):
            if bounded.any():
                model.addMConstr(
                    rows[bounded], x, sense, (m["high"] if sense == "<" else m["low"])[bounded]
                )
        x[: len(m["hint"])].Start = m["hint"]
        model.Params.WorkLimit, model.Params.TimeLimit = float(m["work"]), float(m["wall"])
        model.Params.MIPGap = 0.0
        model.Params.Threads = 1
        model.Params.Seed = int(m["seed"]) % 2_000_000_000
        model.optimize()
        ended = {
            gurobi.GRB.OPTIMAL: OPTIMAL,
            gurobi.GRB.TIME_LIMIT: LIMIT,
            gurobi.GRB.WORK_LIMIT: LIMIT,
        }
        solution = x.X if model.SolCount else np.zeros(0)
        return {"status": ended.get(model.Status, WRONG), "x": solution, "bound": model.ObjBound}


# by the names that a message may say
SOLVERS = {"highs": solve_highs, "cpsat": solve_cpsat, "gurobi": solve_gurobi}


def main() -> None:
    """Answer messages until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a solver prints must not get between the messages
    while (message := receive(sys.stdin.buffer)) is not None:
        start = time.process_time()
        try:
            answer = SOLVERS[str(message["solver"])](message)
        # whatever a solver throws, the parent has a record to fall back on
        except Exception as problem:
            answer = {
                "status": f"{WRONG}: {type(problem).__name__}",
                "x": np.zeros(0),
                "bound": np.inf,
            }
        send(answers, **answer, cpu=time.process_time() - start)


if __name__ == "__main__":
    main()
