"""Private rules as estimators of scikit-learn: its own checks, planted concepts, and silence about
cells.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.estimator_checks import parametrize_with_checks

import understudy as us
from understudy.errors import InputError
from understudy.learning.estimators import (
    PrivateConjunctionClassifier,
    PrivateDecisionListClassifier,
    PrivateDisjunctionClassifier,
    PrivateHalfspaceClassifier,
    PrivateParityClassifier,
    PrivateRuleClassifier,
)
from understudy.learning.reading import bits_of, columns_of
from understudy.privacy import FileLedger

KINDS = (
    PrivateConjunctionClassifier,
    PrivateDisjunctionClassifier,
    PrivateParityClassifier,
    PrivateHalfspaceClassifier,
    PrivateDecisionListClassifier,
)
SECRET = "s3cr3t-cell"

NO_ERROR_FOR_A_CELL = (
    "whether a fit raises must not depend on anybody's cell, so cells that are no numbers count"
    " as 0"
)
NO_ERROR_FOR_A_LABEL = (
    "whether a fit raises must not depend on anybody's label, so whatever is not the second class"
    " is the first"
)
TWO_FITS_DIFFER = (
    "it wants two fits to agree, and among equally good rules each fit draws one at random"
)
EXPECTED_FAILED_CHECKS = {
    "check_complex_data": NO_ERROR_FOR_A_CELL,
    "check_dtype_object": NO_ERROR_FOR_A_CELL,
    "check_supervised_y_no_nan": NO_ERROR_FOR_A_LABEL,
    "check_classifiers_regression_target": NO_ERROR_FOR_A_LABEL,
    "check_classifier_not_supporting_multiclass": NO_ERROR_FOR_A_LABEL,
    "check_classifiers_classes": (
        "the classes are public and given beforehand; reading them from y would cost privacy"
    ),
    "check_class_weight_classifiers": (
        "costs are whole numbers from 1, which exact counting needs; the check asks for 0.0001"
    ),
    "check_supervised_y_2d": TWO_FITS_DIFFER,
    "check_classifier_data_not_an_array": TWO_FITS_DIFFER,
    "check_classifiers_one_label": (
        "rules that are equally good on few rows may differ on others, and one is drawn at random"
    ),
}


@parametrize_with_checks(
    [kind(epsilon=100, width=2) for kind in KINDS],
    expected_failed_checks=lambda _: EXPECTED_FAILED_CHECKS,
)
def test_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


# ---------------------------------------------------------------------- what is learnt


def concept(name: str, x: np.ndarray) -> np.ndarray:
    a, b, c, d = (x[:, j] == 1 for j in (1, 3, 4, 6))
    said = {
        "conjunctions": a & ~b & c,
        "disjunctions": a | ~b,
        "parities": a ^ b ^ c,
        "halfspaces": a.astype(int) + b + c - d >= 2,
        "decision-lists": np.where(a, True, np.where(~b, False, c)),
    }
    return np.asarray(said[name], bool)


def planted(name: str, n: int = 5000, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    x = rng.integers(0, 2, (n, 8))
    return x, (concept(name, x) ^ (rng.random(n) < noise)).astype(int)


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_concept_is_found(kind: type[PrivateRuleClassifier]) -> None:
    x, y = planted(kind.rules)
    best = np.mean(concept(kind.rules, x) == y)
    found = kind(epsilon=1, width=4 if kind.rules == "halfspaces" else None).fit(x, y)
    assert found.score(x, y) >= 0.95 * best
    assert found.guarantee_["reads"] == "unconditional" and found.mistakes_ is None
    assert (
        found.words_ == found.learned_.words
        and found.rule_ == found.learned_.rule
        and found.classes_.tolist() == [0, 1]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_solver_finds_it_too_and_the_guarantee_says_what_it_rests_on(
    kind: type[PrivateRuleClassifier],
) -> None:
    x, _ = planted(kind.rules)
    a, b = x[:, 1], x[:, 4]
    y = {"conjunctions": a & b, "parities": a ^ b}.get(kind.rules, a | b)
    found = kind(epsilon=50, width=2, method="rspm", certifier="cpsat").fit(x, y)
    assert found.guarantee_["reads"].startswith("conditional on solver certificate")
    assert found.score(x, y) == 1


def test_with_a_certifier_of_our_own_nothing_has_to_be_believed() -> None:
    x, y = planted("conjunctions")
    found = PrivateConjunctionClassifier(
        epsilon=20, width=3, method="rspm", certifier="listing"
    ).fit(x, y)
    assert found.guarantee_["reads"] == "unconditional" and found.words_ == "x1 and x4 and not x3"


def test_names_of_columns_and_the_report() -> None:
    x, y = planted("conjunctions")
    frame = pd.DataFrame(x, columns=["a", "label", "c", "d = 1", "e", "f", "g", "h"])
    found = PrivateConjunctionClassifier(epsilon=1, report=0.2).fit(frame, y)
    assert found.words_ == "label and e and not d = 1" and list(found.feature_names_in_) == list(
        frame.columns
    )
    assert (
        found.mistakes_ is not None
        and found.mistakes_["low"] < found.mistakes_["share"] < found.mistakes_["high"]
    )
    # of 5,000 rows: 20 scales of its noise
    assert abs(found.mistakes_["share"] - (1 - found.score(frame, y))) < 0.02
    assert np.array_equal(found.learned_.predict(frame), found.predict(frame) == 1)
    assert np.array_equal(
        PrivateConjunctionClassifier(epsilon=20)
        .fit(pl.DataFrame(frame), pl.Series(y))
        .predict(frame),
        found.predict(frame),
    )
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame[list(reversed(frame.columns))])


def test_labels_are_the_classes_given_as_numbers_or_as_text() -> None:
    x, y = planted("conjunctions")
    for classes, labels in (
        (("<=50K", ">50K"), np.where(y == 1, ">50K", "<=50K")),
        (("<=50K", ">50K"), pd.Series(np.where(y == 1, " >50K", "anything"), dtype="category")),
        ((0, 1), y.astype(str)),
        ((0, 1), y.astype(bool)),
        ((-1, 1), [float(v) if v else None for v in y]),
        ((False, True), y),
        (("no", 7), np.where(y == 1, 7.0, np.nan)),
    ):
        found = PrivateConjunctionClassifier(epsilon=20, classes=classes).fit(x, labels)
        assert found.words_ == "x1 and x4 and not x3"
        assert found.classes_.tolist() == list(classes) and set(found.predict(x).tolist()) == set(
            classes
        )


def test_costs_tilt_the_rule() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2, (4000, 3))
    y = (rng.random(4000) < np.where(x[:, 0] == 1, 0.4, 0.05)).astype(int)
    assert PrivateConjunctionClassifier(epsilon=10, width=2).fit(x, y).predict(x).sum() == 0
    found = PrivateConjunctionClassifier(epsilon=10, width=1, class_weight={1: np.int64(3)}).fit(
        x, y
    )
    assert found.words_ == "x0" and found.learned_.task.costs == (1, 3)


# ---------------------------------------------------------------------- as scikit-learn uses it


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_can_be_listed_set_and_cloned(
    kind: type[PrivateRuleClassifier], tmp_path: Path
) -> None:
    made = kind(epsilon=0.5, classes=("no", "yes"), ledger=FileLedger(tmp_path / "l.jsonl"))
    copy = clone(made)
    assert (
        copy.get_params().keys() == made.get_params().keys()
        and copy.epsilon == 0.5
        and copy.classes == ("no", "yes")
    )
    assert copy.set_params(width=3, method="rspm").get_params()["width"] == 3
    assert ("bias" in made.get_params()) == (kind is PrivateHalfspaceClassifier)


def test_in_a_pipeline_behind_a_binarizer() -> None:
    rng = np.random.default_rng(5)
    ages = rng.uniform(0, 100, (5000, 2))
    y = (ages[:, 0] >= 50).astype(int)
    cut = KBinsDiscretizer(n_bins=2, encode="onehot-dense", strategy="uniform")
    assert (
        make_pipeline(cut, PrivateConjunctionClassifier(epsilon=1, width=2))
        .fit(ages, y)
        .score(ages, y)
        > 0.95
    )


def test_every_fit_is_charged_and_folds_are_fits(tmp_path: Path) -> None:
    x, y = planted("conjunctions", 600)
    made = PrivateConjunctionClassifier(epsilon=1, width=2, ledger=tmp_path / "l.jsonl")
    made.fit(x, y).fit(x, y)
    assert len(FileLedger(tmp_path / "l.jsonl").read().charges) == 2
    cross_val_score(made, x, y, cv=3)
    assert len(FileLedger(tmp_path / "l.jsonl").read().charges) == 5


# ---------------------------------------------------------------------- cells


BAD = [
    np.nan,
    None,
    SECRET,
    "",
    "\ud800",
    b"\x00",
    np.inf,
    -np.inf,
    10**400,
    1 + 2j,
    np.datetime64("NaT"),
    pd.NA,
    object(),
    [1, 2],
    {},
]


class Breaks:
    def __float__(self) -> float:
        raise RuntimeError(SECRET)

    __eq__ = __array__ = __len__ = __float__  # type: ignore[assignment]


@pytest.mark.parametrize("cell", [*BAD, Breaks()], ids=lambda cell: type(cell).__name__)
def test_a_bad_cell_never_raises_and_changes_nobody_else(cell: Any) -> None:
    x, y = planted("conjunctions", 400)
    cells, labels = x.astype(object), y.astype(object)
    cells[5, 1] = labels[7] = cell
    found = PrivateConjunctionClassifier(epsilon=10, width=2).fit(cells, labels)
    others = np.delete(np.arange(400), 5)
    assert np.array_equal(found.predict(cells)[others], found.predict(x)[others])
    clean = x.copy()
    clean[5, 1] = int(isinstance(cell, float) and cell == np.inf)
    assert np.array_equal(found.predict(cells), found.predict(clean))
    PrivateConjunctionClassifier(epsilon=10, width=2).fit(pd.DataFrame(cells), pd.Series(labels))


def test_a_text_that_turned_a_whole_table_into_text_does_no_harm() -> None:
    x, y = planted("conjunctions")
    turned = np.array(
        [[SECRET, *row[1:]] if i == 0 else list(row) for i, row in enumerate(x.tolist())]
    )
    assert turned.dtype.kind == "U"
    found = PrivateConjunctionClassifier(epsilon=20).fit(turned, y)
    assert found.words_ == "x1 and x4 and not x3" and np.array_equal(
        found.predict(turned)[1:], found.predict(x)[1:]
    )


def test_a_number_is_a_yes_above_one_half() -> None:
    x, _ = planted("conjunctions", 2000)
    found = PrivateConjunctionClassifier(epsilon=50, width=1, signed=False).fit(
        x[:, [1, 2]], x[:, 1]
    )
    cells = np.array([[0.5], [np.nextafter(0.5, 1)], [1], [7], [-1], [0]])
    assert found.predict(np.hstack([cells, cells])).tolist() == [0, 1, 1, 1, 0, 0]
    hidden = np.ma.masked_array(np.ones((2, 2)), mask=[[True, False], [False, False]])
    assert found.predict(hidden).tolist() == [0, 1]


# ---------------------------------------------------------------------- refusals


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no promise": ({"epsilon": 0}, "epsilon"),
    "no method": ({"method": "sgd"}, "method"),
    "width": ({"width": 0}, "width"),
    "signed": ({"signed": "yes"}, "signed"),
    "one class": ({"classes": (1,)}, "two different"),
    "the same class twice": ({"classes": (1, True)}, "two different"),
    "the same class as text": ({"classes": ("1", 1)}, "two different"),
    "no classes": ({"classes": None}, "two different"),
    "weights of others": ({"class_weight": {2: 3}}, "class_weight"),
    "balanced weights": ({"class_weight": "balanced"}, "class_weight"),
    "half a cost": ({"class_weight": {1: 0.5}}, "whole numbers"),
    "a solver nobody knows": ({"method": "rspm", "certifier": "oracle"}, "certifier"),
    "too many to list": ({"method": "rspm", "certifier": "listing", "width": 8}, "listed"),
    "noise": ({"noise_on": "rows"}, "noise_on"),
    "features without a width": ({"method": "rspm", "noise_on": "features"}, "width"),
    "delta": ({"delta": 1e-6}, "delta"),
    "prsma without delta": ({"method": "prsma"}, "delta"),
    "prsma at this size": ({"method": "prsma", "delta": 1e-6}, "too few to learn from"),
    "report": ({"report": 1}, "report"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_is_a_sentence_and_charges_nothing(what: str, tmp_path: Path) -> None:
    x, y = planted("conjunctions", 300)
    options, sentence = REFUSED[what]
    with pytest.raises(InputError, match=sentence) as raised:
        PrivateConjunctionClassifier(ledger=tmp_path / "l.jsonl", **options).fit(x, y)
    assert str(raised.value).endswith(".") and not (tmp_path / "l.jsonl").exists()


def test_tables_of_the_wrong_shape_are_refused_and_charge_nothing(tmp_path: Path) -> None:
    made = PrivateHalfspaceClassifier(ledger=tmp_path / "l.jsonl", width=1)
    x, y = planted("conjunctions", 30)
    twice = pd.DataFrame(x[:, :2], columns=["a", "a"])
    wide = np.zeros((30, 70))
    for given, labels, sentence in (
        (sparse.csr_array(x), y, "sparse"),
        (x[:, 0], y, "two"),
        (x[:0], y[:0], "minimum of 1"),
        (x[:, :0], y, "minimum of 1"),
        (x, y[:-1], "one label for each row"),
        (x, x, "1d array"),
        (twice, y, "twice|unique"),
        (wide, y, "fewer attributes"),
    ):
        with pytest.raises(ValueError, match=sentence):
            made.fit(given, labels)
    assert not (tmp_path / "l.jsonl").exists()
    with pytest.raises(InputError, match="bias"):
        made.set_params(bias=-1).fit(x, y)


def test_a_limit_is_kept(tmp_path: Path) -> None:
    x, y = planted("conjunctions", 300)
    book = FileLedger(tmp_path / "l.jsonl")
    book.set_limit(us.Budget.of(epsilon=1, delta=1e-6))
    made = PrivateConjunctionClassifier(epsilon=1, width=2, ledger=book)
    with pytest.raises(us.BudgetRefused):
        for _ in range(50):
            made.fit(x, y)


def test_without_scikit_learn_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **options: Any) -> Any:
        if name.split(".")[0] == "sklearn":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.delitem(sys.modules, "understudy.learning.estimators")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'understudy\[learn\]'\.$"):
        importlib.import_module("understudy.learning.estimators")


def test_a_cell_that_is_a_list_is_a_no_and_changes_no_other() -> None:
    """NumPy would make a third dimension of cells that are all lists, and a table of one dimension
    of most.
    """
    plain: list[list[Any]] = [[1, 0], [0, 1], [1, 1]]
    odd = [*plain[:2], [[1, 2], 1]]
    assert bits_of(columns_of(plain)).tolist() == [[1, 0], [0, 1], [1, 1]]
    assert bits_of(columns_of(odd)).tolist() == [[1, 0], [0, 1], [0, 1]]
    assert bits_of(columns_of([[[1], [2]], [[3], [4]]])).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(us.ParameterError, match="different lengths"):
        columns_of([[1, 0], [1]])


def test_a_subclass_of_a_data_frame_is_read_as_pandas_reads_it() -> None:
    class Frame(pd.DataFrame):
        @property
        def iloc(self) -> Any:
            raise AssertionError("never asked")

    assert bits_of(columns_of(Frame({"a": [1, 0], "b": ["x", 1]}))).tolist() == [[1, 0], [0, 1]]
