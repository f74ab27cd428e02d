"""What a model learns: it is trained on some rows, and asked about real rows that it never saw."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import understudy as us
from bench.coded import Coded
from bench.tables import kdd99, kdd99_frame, load, paths

HELD_BACK = 0.2  # of the rows, by a public seed: nothing that is released has seen them
ROWS = 50_000  # of a table with a parity, beside those held back
BITS = 12  # columns that a parity may be of
FLIPPED = 0.05  # of its labels: the best accuracy is 0.95
ALIKE = 0.6  # how often a column repeats the one before it, where columns are correlated
PARITY = re.compile(r"parity-(\d)(-correlated)?")
MOST_CODES = 255  # of a column that trees may split by sets of its codes


@dataclass(frozen=True)
class Task:
    """Rows to release, rows to judge by, and the column to predict: whether it is not code 0."""

    train: Coded
    test: Coded
    label: str

    def numbers(self, table: pa.Table) -> np.ndarray:
        """Rows as a learner gets them: values of columns of numbers, codes of columns of words."""
        schema, codes = self.train.schema, self.train.schema.encode(table)
        columns = []
        for i, column in enumerate(schema):
            values = table[column.name]
            number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
            plain = number and self.train.read is not None
            columns.append(values.to_numpy().astype(float) if plain else codes[:, i])
        return np.column_stack(columns).astype(float)


LABELS = {
    "adult": "income>50K",
    "adult-values": "income",
    "diabetes": "readmitted",
    "kdd99-attack": "attack",
}


def task(name: str, seed: int = 0) -> Task:
    """By its name: ADULT's income, whether a patient came back, whether a connection attacks, or
    ``parity-5`` and ``parity-5-correlated``.
    """
    match = PARITY.fullmatch(name)
    if match:
        whole, label = parity(int(match[1]), bool(match[2]), seed), "y"
    else:
        label = LABELS[name]
        known = {"kdd99-attack": attacks, "adult-values": adult_values}
        whole = known[name]() if name in known else load(name)
    order = np.random.default_rng(0).permutation(len(whole))
    last = round(len(whole) * HELD_BACK)
    return Task(some(whole, order[last:]), some(whole, order[:last]), label)


def some(table: Coded, rows: np.ndarray) -> Coded:
    """Some rows, with their values where the table has them."""
    read = table.read and (table.read[0].take(rows), table.read[1])
    return Coded(table.codes[rows], table.domain, table.ordered, read)


def adult_values() -> Coded:
    """ADULT as it was published, with numbers in the bins of its description."""
    file, described = paths("adult-raw")
    fields, columns = [], {}
    for name, about in json.loads(described.read_text()).items():
        if about["kind"] == "categorical":
            fields.append({"name": name, "constraints": {"enum": about["categories"]}})
            columns[name] = {"missing": "missing_code" in about}
        else:
            ends = {"minimum": about["min"], "maximum": about["max"]}
            fields.append({"name": name, "type": "integer", "constraints": ends})
            columns[name] = {"bins": about["bins"]}
    schema = us.Schema.from_dict({"fields": fields, "understudy": {"columns": columns}})
    read = pyarrow.csv.read_csv(
        file, convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=True)
    ).select(list(schema.names))
    ordered = tuple(column.name for column in schema if column.kind in ("integer", "number"))
    domain = dict(zip(schema.names, schema.shape, strict=True))
    return Coded(schema.encode(read), domain, ordered, (read, schema))


def attacks() -> Coded:
    """KDD99 with the column ``attack`` cut down to whether there is one."""
    table, words = kdd99(False), kdd99_frame(False)["attack"].astype(str).to_numpy()
    codes = np.column_stack([table.codes[:, :-1], words != "normal."]).astype(np.int32)
    return Coded(codes, {**table.domain, "attack": 2}, table.ordered)


def parity(k: int, correlated: bool, seed: int) -> Coded:
    """Twelve bits, and the parity of k of them with some labels flipped."""
    rng = np.random.default_rng([seed, k, correlated])
    rows = round(ROWS / (1 - HELD_BACK))
    bits = (rng.random((rows, BITS)) < rng.uniform(0.35, 0.65, BITS)).astype(np.int32)
    for column in range(1, BITS if correlated else 0):
        same = rng.random(rows) < ALIKE
        bits[same, column] = bits[same, column - 1]
    chosen = rng.permutation(BITS)[:k]
    y = (bits[:, chosen].sum(axis=1) + (rng.random(rows) < FLIPPED)) % 2
    domain = {**{f"x{i}": 2 for i in range(BITS)}, "y": 2}
    return Coded(np.column_stack([bits, y]).astype(np.int32), domain, ())


def scores(released: pa.Table, judged: Task) -> dict[str, float]:
    """AUC of a logistic regression and of boosted trees; accuracy of one deep tree."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    at = list(judged.train.domain).index(judged.label)
    tables = [judged.numbers(released), judged.numbers(judged.test.table)]
    (x, new), (y, truth) = [np.delete(t, at, 1) for t in tables], [t[:, at] > 0 for t in tables]
    if y.all() or not y.any():  # nothing to learn from
        return {"logistic": 0.5, "trees": 0.5, "accuracy": float((truth == y[0]).mean())}
    sizes = [size for name, size in judged.train.domain.items() if name != judged.label]
    names = [name for name in judged.train.domain if name != judged.label]
    words = [i for i, name in enumerate(names) if name not in judged.train.ordered]
    lists = [i for i in words if 2 < sizes[i] <= MOST_CODES]
    trees = HistGradientBoostingClassifier(categorical_features=lists or None, random_state=0)
    trees.fit(x, y)
    line = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=200))
    line.fit(one_hot(x, words, sizes), y)
    deep = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(x, y)
    return {
        "logistic": float(
            roc_auc_score(truth, line.predict_proba(one_hot(new, words, sizes))[:, 1])
        ),
        "trees": float(roc_auc_score(truth, trees.predict_proba(new)[:, 1])),
        "accuracy": float((deep.predict(new) == truth).mean()),
    }


def one_hot(x: np.ndarray, words: list[int], sizes: list[int]) -> Any:
    """Columns of words as a column for each value but the first, the others as numbers."""
    from scipy import sparse

    numbers = np.nan_to_num(np.delete(x, words, axis=1))
    hot = [sparse.csr_matrix(np.eye(sizes[i])[x[:, i].astype(int), 1:]) for i in words]
    return sparse.hstack([sparse.csr_matrix(numbers), *hot]).tocsr()
