"""What a model learns: it is trained on some rows, and asked about real rows that it never saw."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from bench.coded import Coded
from bench.tables import kdd99, kdd99_frame, load

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


LABELS = {"adult": "income>50K", "diabetes": "readmitted", "kdd99-attack": "attack"}


def task(name: str, seed: int = 0) -> Task:
    """By its name: ADULT's income, whether a patient came back, whether a connection attacks, or
    ``parity-5`` and ``parity-5-correlated``.
    """
    match = PARITY.fullmatch(name)
    if match:
        whole, label = parity(int(match[1]), bool(match[2]), seed), "y"
    else:
        label = LABELS[name]
        whole = attacks() if name == "kdd99-attack" else load(name)
    order = np.random.default_rng(0).permutation(len(whole))
    last = round(len(whole) * HELD_BACK)
    plain = Coded(whole.codes, whole.domain, whole.ordered)
    return Task(plain.rows(order[last:]), plain.rows(order[:last]), label)


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


def split(table: Coded, label: str) -> tuple[np.ndarray, np.ndarray]:
    at = list(table.domain).index(label)
    return np.delete(table.codes, at, axis=1), table.codes[:, at] > 0


def scores(train: Coded, judged: Task) -> dict[str, float]:
    """AUC of a logistic regression and of boosted trees; accuracy of one deep tree."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler
    from sklearn.tree import DecisionTreeClassifier

    (x, y), (new, truth) = split(train, judged.label), split(judged.test, judged.label)
    if y.all() or not y.any():  # nothing to learn from
        return {"logistic": 0.5, "trees": 0.5, "accuracy": float(max(truth.mean(), 1 - truth.mean()))}
    names = [name for name in train.domain if name != judged.label]
    words = [i for i, n in enumerate(names) if n not in train.ordered and train.domain[n] > 2]
    lists = [i for i in words if train.domain[names[i]] <= MOST_CODES]
    trees = HistGradientBoostingClassifier(categorical_features=lists or None, random_state=0)
    trees.fit(x, y)
    line = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=300))
    wide, wide_new = one_hot(x, new, words, [train.domain[n] for n in names])
    line.fit(wide, y)
    deep = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(x, y)
    return {
        "logistic": float(roc_auc_score(truth, line.predict_proba(wide_new)[:, 1])),
        "trees": float(roc_auc_score(truth, trees.predict_proba(new)[:, 1])),
        "accuracy": float((deep.predict(new) == truth).mean()),
    }


def one_hot(x: np.ndarray, new: np.ndarray, words: list[int], sizes: list[int]) -> tuple:
    """Columns of words as one column for each value, the others as numbers; both tables alike."""
    from scipy import sparse

    def wide(codes: np.ndarray) -> sparse.csr_matrix:
        numbers = np.delete(codes, words, axis=1).astype(float)
        hot = [sparse.csr_matrix(np.eye(sizes[i])[codes[:, i]]) for i in words]
        return sparse.hstack([sparse.csr_matrix(numbers), *hot]).tocsr()

    return wide(x), wide(new)
