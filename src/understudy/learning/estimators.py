"""Private rules as estimators of scikit-learn: ``pip install 'understudy[learn]'``.

Every ``fit`` spends ``epsilon`` on the rows that it is given, again each time. ``cross_val_score``
with five folds fits five times and each row is in four of them: it costs each person four times
epsilon, and ``GridSearchCV`` that for every point of its grid. What comes out of them is private at
that sum, not at ``epsilon``. Choose parameters on public data or by what is known beforehand; keep
a file as ``ledger``, with a limit, and whatever goes beyond it is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from understudy.bundle.entries import plain
from understudy.errors import ParameterError
from understudy.learning.learn import learn
from understudy.learning.learned import Learned
from understudy.learning.reading import bits_of, columns_of, feature, label, plain_classes, yes_of
from understudy.privacy.learners import Certifier, Rule
from understudy.privacy.ledger.ledger import Ledger
from understudy.rules.classes import rule_class
from understudy.rules.counting import widest
from understudy.schema import Schema

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise ImportError(
        "The estimators need scikit-learn 1.6 or newer: pip install 'understudy[learn]'."
    ) from None


class PrivateRuleClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What the classifiers below share: a rule about yes/no features, learnt with differential
    privacy under replace-one neighbours.

    A cell of X is a yes if it is a number above 0.5; whatever is no number (missing, text) is a no.
    A cell of y is the second class or else counts as the first. Neither ever raises, because an
    error would tell of somebody's cell. The shape of X and the names of its columns are public.
    Fitting again spends again, and so does every fold of a cross-validation: see the page of this
    module.

    Args:
        epsilon: the privacy promise of *one* fit; pure unless the method is prsma.
        width: at most so many literals (lists: questions) in a rule. None for the widest class of
            which every rule can be counted, which the number of features alone decides.
        signed: whether literals may be negated.
        method: exponential (unconditional), rspm (conditional on a solver's certificate) or prsma
            (toy sizes).
        classes: the two labels, no and yes. Public: never read from y.
        class_weight: what a mistake on a row of a class costs, a whole number from 1; 1 for classes
            that are not in it.
        certifier: who solves and proves, for rspm and prsma: listing or counting (our own), cpsat,
            or auto.
        noise_on: separators or features, for rspm and prsma.
        delta: for prsma.
        report: the share of epsilon for telling how often the rule is wrong (``mistakes_``); 0 for
            not telling.
        ledger: the file that keeps what was spent; without one, this process remembers nothing
            after the fit.

    Attributes:
        rule_: the rule, as its class keeps it.
        words_: the rule in words.
        guarantee_: what is promised, and under ``reads`` whether it is conditional.
        mistakes_: how often the rule is wrong on the rows it was learnt from, with an interval;
            None if ``report`` is 0.
        learned_: all of it, to save and publish.
        classes_: the two labels.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
    """

    rules: ClassVar[str]

    rule_: Rule
    words_: str
    guarantee_: dict[str, Any]
    mistakes_: dict[str, Any] | None
    learned_: Learned
    classes_: np.ndarray
    n_features_in_: int

    def __init__(
        self,
        *,
        epsilon: Any = 1.0,
        width: int | None = None,
        signed: bool = True,
        method: str = "exponential",
        classes: tuple[Any, Any] = (0, 1),
        class_weight: dict[Any, int] | None = None,
        certifier: str | Certifier = "auto",
        noise_on: str | None = None,
        delta: Any = None,
        report: Any = 0.0,
        ledger: str | Path | Ledger | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.width = width
        self.signed = signed
        self.method = method
        self.classes = classes
        self.class_weight = class_weight
        self.certifier = certifier
        self.noise_on = noise_on
        self.delta = delta
        self.report = report
        self.ledger = ledger

    def fit(self, X: Any, y: Any) -> PrivateRuleClassifier:
        """Learn a rule: spends ``epsilon`` on these rows."""
        classes = plain_classes(self.classes)
        columns = columns_of(X)
        validate_data(self, X, y, skip_check_array=True)
        yes = column_or_1d(yes_of(y, classes), warn=True)
        if len(yes) != len(columns[0]):
            raise ParameterError(
                f"X has {len(columns[0]):,} rows and y has {len(yes):,}; there must be one label"
                " for each row."
            )
        names = [
            str(name)
            for name in getattr(
                self, "feature_names_in_", [f"x{place}" for place in range(len(columns))]
            )
        ]
        target = label(_unlike("label", names), classes)
        schema = Schema((*map(feature, names), target))
        bits = bits_of(columns)
        table = pa.table(
            [*bits.T, np.where(yes, *reversed(target.categories))], names=[*names, target.name]
        )
        self.learned_ = learn(
            table, schema=schema, label=target.name, attributes=names, rules=self.rules, width=self._width(len(names)),
            epsilon=self.epsilon, delta=self.delta, signed=self.signed, method=self.method, costs=self._costs(classes),
            report=self.report, certifier=self.certifier, noise_on=self.noise_on, parameters=self._parameters(), ledger=self.ledger,
        )  # fmt: skip
        self.rule_, self.words_ = self.learned_.rule, self.learned_.words
        self.guarantee_ = plain(self.learned_.facts.guarantee)
        self.mistakes_ = plain(self.learned_.facts.mistakes)
        self.classes_ = np.asarray(
            classes, None if type(classes[0]) is type(classes[1]) else object
        )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row; costs nothing, because the rule is already released."""
        check_is_fitted(self)
        columns = columns_of(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.classes_[self.learned_.of.predict(self.rule_, bits_of(columns)).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # one rule about features cut at 0.5 is not meant for blobs on a plane
        tags.classifier_tags.poor_score = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True  # the noise has no seed
        return tags

    def _parameters(self) -> dict[str, Any]:
        """What the class of rules takes besides width and signs."""
        return {}

    def _width(self, features: int) -> int | None:
        if self.width is not None:
            return self.width
        return widest(
            rule_class(self.rules, attributes=features, signed=self.signed, **self._parameters())
        )

    def _costs(self, classes: tuple[Any, Any]) -> tuple[int, int]:
        """Of a wrong yes, which a row of the first class pays, and of a wrong no."""
        weights = {} if self.class_weight is None else self.class_weight
        if not isinstance(weights, dict) or not set(weights) <= set(classes):
            raise ParameterError(
                "class_weight is a mapping from the classes to whole numbers from 1: what a mistake"
                " on a row of each costs."
            )
        costs = [weights.get(value, 1) for value in classes]
        no, yes = (cost.item() if isinstance(cost, np.generic) else cost for cost in costs)
        return no, yes


def _unlike(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


class PrivateConjunctionClassifier(PrivateRuleClassifier):
    """Yes where all literals of a set are true. Parameters and attributes:
    :class:`PrivateRuleClassifier`.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.integers(0, 2, (2000, 5))
        >>> found = PrivateConjunctionClassifier(epsilon=1).fit(X, X[:, 0] & (1 - X[:, 3]))
        >>> found.words_, found.guarantee_["reads"]
        ('x0 and not x3', 'unconditional')
    """

    rules: ClassVar[str] = "conjunctions"


class PrivateDisjunctionClassifier(PrivateRuleClassifier):
    """Yes where some literal of a set is true. Parameters and attributes:
    :class:`PrivateRuleClassifier`.
    """

    rules: ClassVar[str] = "disjunctions"


class PrivateParityClassifier(PrivateRuleClassifier):
    """Yes where an odd (or an even) number of chosen features is true. Parameters and attributes:
    :class:`PrivateRuleClassifier`.
    """

    rules: ClassVar[str] = "parities"


class PrivateDecisionListClassifier(PrivateRuleClassifier):
    """If one literal is true then this, else if another then that, and so on. Parameters and
    attributes: :class:`PrivateRuleClassifier`.
    """

    rules: ClassVar[str] = "decision-lists"


class PrivateHalfspaceClassifier(PrivateRuleClassifier):
    """Yes where chosen features, each counted as +1 or -1, reach a threshold. Further attributes:
    :class:`PrivateRuleClassifier`.

    Args:
        bias: how far thresholds may lie from "at least 1", up or down. The other parameters are
            those of :class:`PrivateRuleClassifier`.
    """

    rules: ClassVar[str] = "halfspaces"

    def __init__(
        self,
        *,
        bias: int = 3,
        epsilon: Any = 1.0,
        width: int | None = None,
        signed: bool = True,
        method: str = "exponential",
        classes: tuple[Any, Any] = (0, 1),
        class_weight: dict[Any, int] | None = None,
        certifier: str | Certifier = "auto",
        noise_on: str | None = None,
        delta: Any = None,
        report: Any = 0.0,
        ledger: str | Path | Ledger | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, width=width, signed=signed, method=method, classes=classes, class_weight=class_weight,
            certifier=certifier, noise_on=noise_on, delta=delta, report=report, ledger=ledger,
        )  # fmt: skip
        self.bias = bias

    def _parameters(self) -> dict[str, Any]:
        return {"bias": self.bias}
