"""Deliberately broken variants of the package, and the tests that must notice each of them.

A mutant is one or more changes of text in one file. ``python -m tools.mutants`` makes each in a copy of the package and runs the tests
named for it, which must fail; tests/test_mutants.py checks that the texts still fit, and runs a few.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A broken variant.

    Attributes:
        what: what is wrong with it, in words.
        file: where, below the package.
        changes: (text as it is, text as it becomes); each occurs exactly once.
        tests: what must notice: test files, or tests in them, as pytest takes them.
    """

    what: str
    file: str
    changes: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]


def mutant(what: str, file: str, *changes: tuple[str, str], tests: str) -> Mutant:
    return Mutant(what, file, changes, tuple(f"tests/{test}" for test in tests.split()))


METER, NOISE, LEDGER = "privacy/meter.py", "privacy/noise.py", "privacy/ledger.py"

MUTANTS = [
    # ------------------------------------------------------------------ too little noise
    mutant(
        "half the noise on measured counts",
        METER,
        (
            "return Measurement(part, counts.dense() + self._noise.gaussian(part.size, sigma), sigma)",
            "return Measurement(part, counts.dense() + self._noise.gaussian(part.size, sigma) // 2, sigma)",
        ),
        tests="test_meter.py::test_measurements_are_unbiased_and_have_their_sigma",
    ),
    mutant(
        "a tenth less noise on measured counts",
        METER,
        (
            "return Measurement(part, counts.dense() + self._noise.gaussian(part.size, sigma), sigma)",
            "return Measurement(part, counts.dense() + self._noise.gaussian(part.size, sigma * 9 / 10), sigma)",
        ),
        tests="test_meter.py test_audit.py",
    ),
    mutant(
        "noise only on cells that somebody is in",
        METER,
        (
            "return Measurement(part, counts.dense() + self._noise.gaussian(part.size, sigma), sigma)",
            "return Measurement(part, counts.dense() + (counts.dense() > 0) * self._noise.gaussian(part.size, sigma), sigma)",
        ),
        tests="test_meter.py test_audit.py",
    ),
    mutant(
        "one draw of noise for all cells",
        METER,
        (
            "return Measurement(part, counts.dense() + self._noise.gaussian(part.size, sigma), sigma)",
            "return Measurement(part, counts.dense() + self._noise.gaussian(1, sigma), sigma)",
        ),
        tests="test_meter.py test_audit.py",
    ),
    mutant(
        "a certificate without noise",
        METER,
        ("noisy = int(found.max()) + int(self._noise.gaussian(1, sigma)[0])", "noisy = int(found.max())"),
        tests="test_meter.py test_audit.py",
    ),
    mutant(
        "sigma rounded down to the grid",
        NOISE,
        ("return Fraction(-(-above * halvings // below), halvings)", "return Fraction(above * halvings // below, halvings)"),
        tests="test_noise.py",
    ),
    mutant(
        "a discrete Laplace of half the scale",
        NOISE,
        (
            "return self._run(_laplace_kernel, size, 24, np.asarray([scale.numerator, scale.denominator, 1], np.int64))",
            "return self._run(_laplace_kernel, size, 24, np.asarray([scale.numerator, 2 * scale.denominator, 1], np.int64))",
        ),
        tests="test_noise.py",
    ),
    mutant(
        "random words used twice",
        NOISE,
        ("words = np.concatenate([words[state[1] :], fresh])", "words = np.concatenate([words, fresh])"),
        tests="test_noise.py",
    ),
    mutant(
        "a fixed seed for the noise",
        NOISE,
        ("def __init__(self, entropy: Entropy = os.urandom)", "def __init__(self, entropy: Entropy = __import__('random').Random(0).randbytes)"),
        tests="test_noise.py test_conformance.py::test_nobody_goes_around_the_meter",
    ),
    mutant(
        "wide tables: empty cells never rise above the threshold",
        "privacy/wide.py",
        ("risen = noise.above(proposed, sigma, threshold)", "risen = noise.above(proposed, sigma, threshold)[:0]"),
        tests="test_wide.py",
    ),
    mutant(
        "wide tables: occupied cells are listed first",
        "privacy/wide.py",
        ("order = np.argsort(places)  #", "order = np.arange(len(places))  #"),
        tests="test_wide.py",
    ),
    # ------------------------------------------------------------------ too small a charge
    mutant(
        "replace-one counted as one change of a marginal, not two",
        "queries/marginal.py",
        ("return 2 if self.positions else 0", "return 1 if self.positions else 0"),
        tests="test_conformance.py::test_query_class",
    ),
    mutant(
        "a measurement charged for twice the variance that is drawn",
        METER,
        (
            'ev.DiscreteGaussian(what=f"measure {name_of(part)}", sigma_squared=sigma**2, l2_squared=l2)',
            'ev.DiscreteGaussian(what=f"measure {name_of(part)}", sigma_squared=2 * sigma**2, l2_squared=l2)',
        ),
        tests="test_meter.py",
    ),
    mutant(
        "a selection charged a quarter, as noisy max would be",
        "privacy/exponential.py",
        ("return self.kappa * sensitivity + TABLE_ERROR", "return self.kappa * sensitivity / 2 + TABLE_ERROR"),
        tests="test_meter.py",
    ),
    mutant(
        "weights twice as sharp as the table says",
        "privacy/exponential.py",
        ("fine, middle = _powers(self.kappa, 1 << low, fixed)", "fine, middle = _powers(2 * self.kappa, 1 << low, fixed)"),
        tests="test_exponential.py",
    ),
    mutant(
        "a multiplier of scores that the sensitivity forgets",
        METER,
        ("shift = table.log_weight_shift(multiplier)", "shift = table.log_weight_shift(1)"),
        ("table = ScoreTable.within(rho / draws, multiplier, self._highest(multiplier, signed))",
         "table = ScoreTable.within(rho / draws, 1, self._highest(multiplier, signed))"),
        tests="test_meter.py",
    ),
    mutant(
        "many draws for the price of one",
        METER,
        ('ev.ExponentialDraws(what=f"select {draws} of {sum(p.size for p in parts):,}", log_weight_shift=shift, draws=draws)',
         'ev.ExponentialDraws(what=f"select {draws} of {sum(p.size for p in parts):,}", log_weight_shift=shift, draws=1)'),
        tests="test_meter.py",
    ),
    mutant(
        "the lightest weight paid for instead of the heaviest",
        METER,
        ("sensitivity = max(weights) * score.sensitivity(self.neighbours)", "sensitivity = min(weights) * score.sensitivity(self.neighbours)"),
        tests="test_meter.py",
    ),
    mutant(
        "a total error said to move by one when it moves by two",
        "privacy/scores.py",
        ("return 2 if self is MarginalScore.TOTAL and neighbours is Neighbours.REPLACE_ONE else 1", "return 1"),
        tests="test_meter.py",
    ),
    mutant(
        "residuals of one side of a swap only",
        "privacy/residuals.py",
        ("return 2 * _worst_swap(whole, sizes) / scale", "return _worst_swap(whole, sizes) / scale"),
        tests="test_residuals.py",
    ),
    mutant(
        "a discriminator charged for a row that only leaves",
        "privacy/logistic.py",
        ("Fraction(2 * self.marginals * 4**COARSE, self.sigma**2)", "Fraction(self.marginals * 4**COARSE, self.sigma**2)"),
        tests="test_logistic.py",
    ),
    mutant(
        "a discriminator that is certified by the largest entry of its slope",
        "privacy/logistic.py",
        ("return bool(rounded.max() <= limit and int((rounded * rounded).sum()) <= limit**2)", "return bool(rounded.max() <= limit)"),
        tests="test_logistic.py",
    ),
    mutant(
        "a discriminator with nothing over what separates it from the true minimum",
        METER,
        ("theta + self._noise.gaussian(terms.cells, terms.cover)", "theta"),
        tests="test_logistic.py",
    ),
    mutant(
        "half the noise on a discriminator's objective",
        METER,
        ("b = self._noise.gaussian(terms.cells, Fraction(terms.sigma))", "b = self._noise.gaussian(terms.cells, Fraction(terms.sigma)) // 2"),
        tests="test_logistic.py",
    ),
    mutant(
        "resampling charged for one slot, whatever their number",
        "privacy/resampling.py",
        ("curve, rho = tuple(slots * r for r in _slot_curve(*slot)), slots * slot_rho", "curve, rho = tuple(r for r in _slot_curve(*slot)), slot_rho"),
        tests="test_resampling.py",
    ),
    mutant(
        "a perturbed optimum without room for ties and both rules",
        "privacy/argmin.py",
        ("return 2 * self.weight * self.top + 2 * self.gap + 1", "return self.weight * self.top"),
        tests="test_argmin.py",
    ),
    mutant(
        "a soft optimum twice as sharp as paid for",
        METER,
        ("kappa = epsilon / (2 * top)", "kappa = epsilon / top"),
        tests="test_argmin.py",
    ),
    mutant(
        "mistakes of different costs noised as if all cost one",
        METER,
        ("scale = top / epsilon", "scale = 1 / epsilon"),
        ('ev.DiscreteLaplace(what="mistakes of a rule", scale=scale, l1=top)', 'ev.DiscreteLaplace(what="mistakes of a rule", scale=scale, l1=1)'),
        tests="test_argmin.py",
    ),
    mutant(
        "a solver believed without a proof",
        "privacy/argmin.py",
        ("if solved is not None and certified(problem, solved, noisy.gap) else None", "if solved is not None else None"),
        tests="test_argmin.py",
    ),
    mutant(
        "pure epsilon counted as an eighth of its square",
        "privacy/accountant.py",
        ("return Cost(epsilon**2 / 2)\n", "return Cost(epsilon**2 / 8)\n"),
        tests="test_budget.py",
    ),
    mutant(
        "delta outside the allowance let through",
        "privacy/accountant.py",
        ("return self.rho <= allowance.rho and self.delta <= allowance.delta and under and bounded",
         "return self.rho <= allowance.rho and under and bounded"),
        tests="test_budget.py test_meter.py test_argmin.py",
    ),
    mutant(
        "tilted sums priced for one row of a swap",
        "privacy/tilted.py",
        ("rows = 1 if neighbours is Neighbours.ADD_REMOVE_ONE else 2", "rows = 1"),
        tests="test_tilted.py",
    ),
    mutant(
        "a marginal named twice and paid for once",
        "privacy/tilted.py",
        ("return rows * len(self.parts) *", "return rows * len(set(self.parts)) *"),
        tests="test_tilted.py",
    ),
    mutant(
        "sizes of a marginal that wrap as NumPy's numbers do",
        "queries/marginal.py",
        ('object.__setattr__(self, "shape", tuple(map(operator.index, self.shape)))', "pass"),
        tests="test_tilted.py",
    ),
    mutant(
        "charges without a measurement, whoever makes them",
        "bundle/verify.py",
        ("if unkept and unkept != _unkept(release):", "if False:"),
        tests="test_generator.py test_bundle.py",
    ),
    # ------------------------------------------------------------------ charged late, or not at all
    mutant(
        "the certificate looks before it pays",
        METER,
        ('        self._certify.charge(ev.DiscreteGaussian(what="certify", sigma_squared=sigma**2, l2_squared=1))\n'
         "        found = gaps(self._look(parts), answers, rows=rows, answer_rows=int(released_rows), score=MarginalScore.LARGEST)\n",
         "        found = gaps(self._look(parts), answers, rows=rows, answer_rows=int(released_rows), score=MarginalScore.LARGEST)\n"
         '        self._certify.charge(ev.DiscreteGaussian(what="certify", sigma_squared=sigma**2, l2_squared=1))\n'),
        tests="test_meter.py",
    ),
    mutant(
        "a release that reserves nothing",
        METER,
        ("        ledger.reserve(label, tuple(reserved), neighbours)\n", ""),
        tests="test_meter.py",
    ),
    mutant(
        "the certificate's share on top of what was promised",
        METER,
        ('rho=play.rho + certify)', "rho=play.rho)"),
        tests="test_meter.py test_front_door.py",
    ),
    mutant(
        "a charge that is granted before it is on the disk",
        LEDGER,
        ("    try:\n        os.fsync(fd)\n    except OSError as problem:", "    try:\n        pass\n    except OSError as problem:"),
        tests="test_faults.py",
    ),
    mutant(
        "a limit that is never asked about",
        LEDGER,
        ("if state.limit is not None and not (state.spent + cost).keeps(state.limit):", "if state.limit is not None and False:"),
        tests="test_ledger.py",
    ),
    mutant(
        "a chain of hashes that nobody checks",
        LEDGER,
        ('and record["hash"] == _hash(record)', ""),
        tests="test_ledger.py",
    ),
    mutant(
        "a release that failed gives its budget back",
        "booked.py",
        ("            self._book.note(how, self._number)\n", "            self._book.path.unlink() if 'early' in how else self._book.note(how, self._number)\n"),
        tests="test_front_door.py test_faults.py",
    ),
    mutant(
        "a folder of a new ledger that is not made durable",
        LEDGER,
        ("    fd = os.open(folder, os.O_RDONLY)\n    try:\n        os.fsync(fd)\n", "    fd = os.open(folder, os.O_RDONLY)\n    try:\n        pass\n"),
        tests="test_faults.py",
    ),
    # ------------------------------------------------------------------ things that talk
    mutant(
        "the exact number of rows under add-remove-one",
        METER,
        ("self._rows, self._rows_sigma = max(1, int(found.counts[0])), found.sigma",
         "self._rows, self._rows_sigma = max(1, int(self._exact[EVERYBODY].values[0])), found.sigma"),
        tests="test_meter.py",
    ),
    mutant(
        "whatever a source says when it breaks is passed on",
        METER,
        ("    with contextlib.suppress(Exception):\n        return look()\n", "    return look()\n"),
        tests="test_meter.py",
    ),
    mutant(
        "a meter that shows what it counted",
        METER,
        ('return f"<Meter: {len(self.events)} events,', 'return f"<Meter: {self._exact} {len(self.events)} events,'),
        tests="test_meter.py",
    ),
    mutant(
        "exact counts printed on the way",
        METER,
        ("        exact = [self._exact[part] for part in parts]\n", "        exact = [self._exact[part] for part in parts]\n        print(exact)\n"),
        tests="test_conformance.py::test_nobody_goes_around_the_meter",
    ),
    mutant(
        "a mechanism that stops when the exact error is small",
        "players/measuring.py",
        ("        return [self._meter.measure(self._parts[index], rho=self._measure)]",
         "        if self._meter._look([self._parts[index]])[0].values.max() < 5:\n            return []\n"
         "        return [self._meter.measure(self._parts[index], rho=self._measure)]"),
        tests="test_conformance.py::test_nobody_goes_around_the_meter",
    ),
    mutant(
        "a bad cell that raises instead of being mapped",
        "schema/columns.py",
        ("        codes = np.where(codes < 0, self.other_code, codes)\n",
         "        if (codes < 0).any():\n            raise ValueError(f'bad cell in {self.name}')\n"),
        tests="test_cells.py test_conformance.py::test_source",
    ),
    # ------------------------------------------------------------------ promises to users
    mutant(
        "a certificate that subtracts its margin",
        "privacy/certificate.py",
        ("alpha = (noisy + margin + 0.5 + rows_margin) / fewest", "alpha = (noisy - margin + 0.5 + rows_margin) / fewest"),
        tests="test_front_door.py test_bundle.py test_meter.py",
    ),
    mutant(
        "one round too many",
        "mechanisms/mwem.py",
        ("return play(data, query, rounds=1 + rounds, watcher=watcher", "return play(data, query, rounds=2 + rounds, watcher=watcher"),
        tests="test_conformance.py::test_mechanism[mwem]",
    ),
    mutant(
        "a report that runs what a column is called",
        "bundle/report.py",
        ("autoescape=True", "autoescape=False"),
        tests="test_report_escaping.py",
    ),
    mutant(
        "cells that a spreadsheet would run",
        "bundle/export.py",
        ("[cell if raw else _harmless(cell) for cell in cells]", "cells"),
        tests="test_export.py",
    ),
    mutant(
        "a model that keeps rows outside its condition",
        "synthesis/mixture.py",
        ("                cut[span][~allowed(self.schema, box, c)] = 0\n", ""),
        tests="test_model.py",
    ),
]  # fmt: skip
