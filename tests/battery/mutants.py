"""Deliberately broken variants of the package, and the tests that must notice each of them.

A mutant is one or more changes of text in one file. ``python -m tools.mutants`` makes each in a copy of the package and runs the tests
named for it, which must fail; tests/battery/test_mutants.py checks that the texts still fit, and runs a few.
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


SESSION = "api/session.py"
METER, NOISE, LEDGER = (
    "privacy/meter.py",
    "privacy/noise/samplers.py",
    "privacy/ledger/ledger.py",
)
MEASURE, SELECT, SELECT_MARGINAL, CERTIFY = (
    "privacy/verbs/measure.py",
    "privacy/verbs/select.py",
    "privacy/verbs/select_marginal.py",
    "privacy/verbs/certify.py",
)
DISCRIMINATE, RESAMPLE, SOFT_ARGMIN, MISTAKES, BLOCKS = (
    "privacy/verbs/discriminate.py",
    "privacy/verbs/resample.py",
    "privacy/verbs/soft_argmin.py",
    "privacy/verbs/mistakes.py",
    "privacy/verbs/blocks.py",
)
GAUSSIAN = "privacy/accounting/gaussian.py"
CHAIN, TABLE = "privacy/ledger/chain.py", "privacy/ledger/table_ledger.py"

MUTANTS = [
    # ------------------------------------------------------------------ too little noise
    mutant(
        "half the noise on measured counts",
        MEASURE,
        (
            "return Measurement(batch, counts.dense() + noise.gaussian(counts.cells, sigma), sigma)",
            "return Measurement(batch, counts.dense() + noise.gaussian(counts.cells, sigma) // 2, sigma)",
        ),
        tests="privacy/test_meter.py::test_measurements_are_unbiased_and_have_their_sigma",
    ),
    mutant(
        "a tenth less noise on measured counts",
        MEASURE,
        (
            "return Measurement(batch, counts.dense() + noise.gaussian(counts.cells, sigma), sigma)",
            "return Measurement(batch, counts.dense() + noise.gaussian(counts.cells, sigma * 9 / 10), sigma)",
        ),
        tests="privacy/test_meter.py battery/test_audit.py",
    ),
    mutant(
        "noise only on cells that somebody is in",
        MEASURE,
        (
            "return Measurement(batch, counts.dense() + noise.gaussian(counts.cells, sigma), sigma)",
            "return Measurement(batch, counts.dense() + (counts.dense() > 0) * noise.gaussian(counts.cells, sigma), sigma)",
        ),
        tests="privacy/test_meter.py battery/test_audit.py",
    ),
    mutant(
        "one draw of noise for all cells",
        MEASURE,
        (
            "return Measurement(batch, counts.dense() + noise.gaussian(counts.cells, sigma), sigma)",
            "return Measurement(batch, counts.dense() + noise.gaussian(1, sigma), sigma)",
        ),
        tests="privacy/test_meter.py battery/test_audit.py",
    ),
    mutant(
        "a certificate without noise",
        CERTIFY,
        ("noisy = int(errors.max()) + int(noise.gaussian(1, sigma)[0])", "noisy = int(errors.max())"),
        tests="privacy/test_meter.py battery/test_audit.py",
    ),
    mutant(
        "sigma rounded down to the grid",
        NOISE,
        ("return Fraction(-(-above * halvings // below), halvings)", "return Fraction(above * halvings // below, halvings)"),
        tests="privacy/test_noise.py",
    ),
    mutant(
        "a discrete Laplace of half the scale",
        NOISE,
        (
            "return self._run(_laplace_kernel, size, 24, np.asarray([scale.numerator, scale.denominator, 1], np.int64))",
            "return self._run(_laplace_kernel, size, 24, np.asarray([scale.numerator, 2 * scale.denominator, 1], np.int64))",
        ),
        tests="privacy/test_noise.py",
    ),
    mutant(
        "random words used twice",
        NOISE,
        ("words = np.concatenate([words[state[1] :], fresh])", "words = np.concatenate([words, fresh])"),
        tests="privacy/test_noise.py",
    ),
    mutant(
        "a fixed seed for the noise",
        NOISE,
        ("def __init__(self, entropy: Entropy = os.urandom)", "def __init__(self, entropy: Entropy = __import__('random').Random(0).randbytes)"),
        tests="privacy/test_noise.py battery/test_conformance.py::test_nobody_goes_around_the_meter",
    ),
    mutant(
        "wide tables: empty cells never rise above the threshold",
        "privacy/noise/wide.py",
        ("risen = noise.above(proposed, sigma, threshold)", "risen = noise.above(proposed, sigma, threshold)[:0]"),
        tests="privacy/test_wide.py",
    ),
    mutant(
        "wide tables: occupied cells are listed first",
        "privacy/noise/wide.py",
        ("order = np.argsort(places)", "order = np.arange(len(places))"),
        tests="privacy/test_wide.py",
    ),
    # ------------------------------------------------------------------ too small a charge
    mutant(
        "replace-one counted as one change of a marginal, not two",
        "queries/marginal.py",
        ("return 2 if self.positions else 0", "return 1 if self.positions else 0"),
        tests="battery/test_conformance.py::test_query_class",
    ),
    mutant(
        "ranges that share a point cost what ranges that do not meet cost",
        "queries/ranges.py",
        ("return min(self.size, 2 * self._deepest)", "return min(self.size, 2)"),
        tests="queries/test_ranges.py battery/test_conformance.py::test_query_class",
    ),
    mutant(
        "a measurement charged for twice the variance that is drawn",
        MEASURE,
        (
            'ev.DiscreteGaussian(what=f"measure {name_of(batch)}", sigma_squared=sigma**2, l2_squared=l2)',
            'ev.DiscreteGaussian(what=f"measure {name_of(batch)}", sigma_squared=2 * sigma**2, l2_squared=l2)',
        ),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "a selection charged a quarter, as noisy max would be",
        "privacy/noise/exponential.py",
        ("return self.kappa * sensitivity + TABLE_ERROR", "return self.kappa * sensitivity / 2 + TABLE_ERROR"),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "weights twice as sharp as the table says",
        "privacy/noise/exponential.py",
        ("fine = _powers(self.kappa, 1 << low, fixed)", "fine = _powers(2 * self.kappa, 1 << low, fixed)"),
        tests="privacy/test_exponential.py",
    ),
    mutant(
        "a multiplier of scores that the sensitivity forgets",
        SELECT,
        ("shift = table.log_weight_shift(multiplier)", "shift = table.log_weight_shift(1)"),
        ("table = ScoreTable.within(rho / draws, multiplier, highest(public.rows, multiplier, signed))",
         "table = ScoreTable.within(rho / draws, 1, highest(public.rows, multiplier, signed))"),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "many draws for the price of one",
        SELECT,
        ('ev.ExponentialDraws(what=what, log_weight_shift=shift, draws=draws)',
         'ev.ExponentialDraws(what=what, log_weight_shift=shift, draws=1)'),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "the lightest weight paid for instead of the heaviest",
        SELECT_MARGINAL,
        ("sensitivity = max(weights) * score.sensitivity(public.neighbours)", "sensitivity = min(weights) * score.sensitivity(public.neighbours)"),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "a total error said to move by one when it moves by two",
        "privacy/scores.py",
        ("return 2 if self is MarginalScore.TOTAL and neighbours is Neighbours.REPLACE_ONE else 1", "return 1"),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "residuals of one side of a swap only",
        "privacy/verbs/residuals.py",
        ("return 2 * _worst_swap(whole, sizes) / scale", "return _worst_swap(whole, sizes) / scale"),
        tests="privacy/test_residuals.py",
    ),
    mutant(
        "a discriminator charged for a row that only leaves",
        "privacy/logistic.py",
        ("Fraction(2 * self.marginals * 4**COARSE, self.sigma**2)", "Fraction(self.marginals * 4**COARSE, self.sigma**2)"),
        tests="privacy/test_logistic.py",
    ),
    mutant(
        "a discriminator that is certified by the largest entry of its slope",
        "privacy/logistic.py",
        ("return bool(rounded.max() <= limit and int((rounded * rounded).sum()) <= limit**2)", "return bool(rounded.max() <= limit)"),
        tests="privacy/test_logistic.py",
    ),
    mutant(
        "a discriminator with nothing over what separates it from the true minimum",
        DISCRIMINATE,
        ("theta + noise.gaussian(terms.cells, terms.cover)", "theta"),
        tests="privacy/test_logistic.py",
    ),
    mutant(
        "half the noise on a discriminator's objective",
        DISCRIMINATE,
        ("b = noise.gaussian(terms.cells, Fraction(terms.sigma))", "b = noise.gaussian(terms.cells, Fraction(terms.sigma)) // 2"),
        tests="privacy/test_logistic.py",
    ),
    mutant(
        "resampling charged for one slot, whatever their number",
        "privacy/resampling.py",
        ("curve = tuple(slots * r for r in _slot_curve(*slot))\n    rho = slots * slot_rho", "curve = tuple(r for r in _slot_curve(*slot))\n    rho = slot_rho"),
        tests="privacy/test_resampling.py",
    ),
    mutant(
        "a perturbed optimum without room for ties and both rules",
        "privacy/perturbation.py",
        ("return 2 * self.weight * self.top + 2 * self.gap + 1", "return self.weight * self.top"),
        tests="privacy/test_argmin.py",
    ),
    mutant(
        "a soft optimum twice as sharp as paid for",
        SOFT_ARGMIN,
        ("kappa = epsilon / (2 * top)", "kappa = epsilon / top"),
        tests="privacy/test_argmin.py",
    ),
    mutant(
        "mistakes of different costs noised as if all cost one",
        MISTAKES,
        ("scale = top / epsilon", "scale = 1 / epsilon"),
        ('ev.DiscreteLaplace(what="mistakes of a rule", scale=scale, l1=top)', 'ev.DiscreteLaplace(what="mistakes of a rule", scale=scale, l1=1)'),
        tests="privacy/test_argmin.py",
    ),
    mutant(
        "a solver believed without a proof",
        "privacy/perturbation.py",
        ("if solved is not None and certified(problem, solved, noisy.gap) else None", "if solved is not None else None"),
        tests="privacy/test_argmin.py",
    ),
    mutant(
        "pure epsilon counted as an eighth of its square",
        "privacy/accounting/accountant.py",
        ("return Cost(epsilon**2 / 2)\n", "return Cost(epsilon**2 / 8)\n"),
        tests="privacy/test_budget.py",
    ),
    mutant(
        "delta outside the allowance let through",
        "privacy/accounting/accountant.py",
        ("inside = self.rho <= allowance.rho and self.delta <= allowance.delta", "inside = self.rho <= allowance.rho"),
        tests="privacy/test_budget.py privacy/test_meter.py privacy/test_argmin.py",
    ),
    mutant(
        "a marginal named twice and paid for once",
        "privacy/logistic.py",
        ("marginals=len(batches), cells=cells, ridge=ridge", "marginals=len(set(batches)), cells=cells, ridge=ridge"),
        tests="privacy/test_logistic.py",
    ),
    mutant(
        "sizes of a marginal that wrap as NumPy's numbers do",
        "queries/marginal.py",
        ('object.__setattr__(self, "shape", tuple(map(operator.index, self.shape)))', "pass"),
        tests="privacy/test_logistic.py",
    ),
    mutant(
        "charges without a measurement, whoever makes them",
        "bundle/verify.py",
        ("if not_kept and not_kept != _not_kept(release):", "if False:"),
        tests="mechanisms/test_generator.py bundle/test_bundle.py",
    ),
    # ------------------------------------------------------------------ charged late, or not at all
    mutant(
        "the certificate looks before it pays",
        METER,
        ("        account.charge(*priced.events)\n",
         "        _ = kind.name == 'certify' and self._look(priced.reads)\n        account.charge(*priced.events)\n"),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "a release that reserves nothing",
        SESSION,
        ("self.charge = self.ledger.reserve(self.promise.label, events, self.neighbours)", "self.charge = 0"),
        tests="api/test_session.py",
    ),
    mutant(
        "the certificate's share on top of what was promised",
        SESSION,
        ("rho, least = play.rho + certify, play.least_variance", "rho, least = play.rho, play.least_variance"),
        tests="api/test_session.py api/test_release.py",
    ),
    mutant(
        "a charge that is granted before it is on the disk",
        CHAIN,
        ("            sync(self._fd)\n", ""),
        tests="battery/test_faults.py",
    ),
    mutant(
        "a limit that is never asked about",
        LEDGER,
        ("if state.limit is None or (state.spent + cost).keeps(state.limit):", "if True:"),
        tests="privacy/test_ledger.py",
    ),
    mutant(
        "a chain of hashes that nobody checks",
        CHAIN,
        ('and record["hash"] == hash_of(record)', ""),
        tests="privacy/test_ledger.py",
    ),
    mutant(
        "a release that failed gives its budget back",
        SESSION,
        ("                self.ledger.note(how, self.charge)\n", "                self.ledger.path.unlink() if 'early' in how else self.ledger.note(how, self.charge)\n"),
        tests="api/test_release.py battery/test_faults.py",
    ),
    mutant(
        "a folder of a new ledger that is not made durable",
        "privacy/ledger/locking.py",
        ("    fd = os.open(folder, os.O_RDONLY)\n    try:\n        sync(fd)\n", "    fd = os.open(folder, os.O_RDONLY)\n    try:\n        pass\n"),
        tests="battery/test_faults.py",
    ),
    mutant(
        "a charge that is granted without being read back",
        CHAIN,
        ("        if content != self._data:\n", "        if False:\n"),
        tests="privacy/test_ledger.py::test_a_record_that_is_not_where_it_was_put_grants_nothing",
    ),
    mutant(
        "another name of a file has a ledger of its own",
        TABLE,
        ("names = [file.path, *([(file.device, file.inode)] if file.inode else [])]", "names = [file.path]"),
        tests="privacy/test_table_ledger.py",
    ),
    mutant(
        "an explicit ledger gets around a limit",
        TABLE,
        ("if chain.path in asked or state.limit is not None or counts:", "if chain.path in asked or counts:"),
        tests="privacy/test_table_ledger.py::test_beside_an_explicit_ledger_one_with_a_limit_is_charged_too",
    ),
    mutant(
        "of several ledgers one is charged before all were asked",
        TABLE,
        ("                check_charge(chains, events, neighbours)\n", "                check_charge(chains[:1], events, neighbours)\n"),
        tests="privacy/test_table_ledger.py::test_of_several_ledgers_all_are_charged_or_none",
    ),
    # ------------------------------------------------------------------ things that talk
    mutant(
        "the exact number of rows under add-remove-one",
        METER,
        ("self._rows, self._rows_sigma = max(1, int(answer.counts[0])), answer.sigma",
         "self._rows, self._rows_sigma = max(1, int(self._exact[priced.reads[0].batch].values[0])), answer.sigma"),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "whatever a source says when it breaks is passed on",
        "privacy/looking.py",
        ("    except BaseException:  # a panic of a library in Rust is no Exception\n        sentence = UNREADABLE\n", ""),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "what a panic says is passed on",
        "privacy/looking.py",
        ("    except BaseException:  # a panic of a library", "    except Exception:  # a panic of a library"),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "an interruption carries along what went wrong before it",
        "privacy/looking.py",
        ("        stop.__cause__ = stop.__context__ = None  # what went wrong just before may quote a cell\n", ""),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "people whose numbers share a double are one",
        "sources/items.py",
        ("c.NUMBER: [_bits(rows.number), _bits(rows.rest)],", "c.NUMBER: [_bits(rows.number)],"),
        tests="sources/test_items.py",
    ),
    mutant(
        "a column of SQLite that stops at a cell is read",
        "sources/sqlite.py",
        ("if hidden == GENERATED and name in self._wanted:", "if False:"),
        tests="sources/test_sqlite.py",
    ),
    mutant(
        "text of SQLite that is no UTF-8 ends the reading",
        "sources/sqlite.py",
        ('raw.decode("utf-8", "replace")', 'raw.decode("utf-8")'),
        tests="sources/test_sqlite.py",
    ),
    mutant(
        "a relation may have types that were guessed from cells",
        "sources/frames.py",
        ("if not scans <= DECLARED:", "if False:"),
        tests="sources/test_frames.py",
    ),
    mutant(
        "a subclass of a DataFrame is read by its own verbs",
        "sources/frames.py",
        ("    frame = whole(table)  # the columns as pandas keeps them, without what a subclass makes of them", "    frame = table"),
        tests="sources/test_frames.py",
    ),
    mutant(
        "a meter that shows what it counted",
        METER,
        ('return f"<Meter: {len(self.events)} events,', 'return f"<Meter: {self._exact} {len(self.events)} events,'),
        tests="privacy/test_meter.py",
    ),
    mutant(
        "exact counts printed on the way",
        METER,
        ("        exact = [self._exact[batch] for batch in batches]\n", "        exact = [self._exact[batch] for batch in batches]\n        print(exact)\n"),
        tests="battery/test_conformance.py::test_nobody_goes_around_the_meter",
    ),
    mutant(
        "a mechanism that stops when the exact error is small",
        "game/players/measuring.py",
        ("        return self._meter.ask(Measure(batches=worst, rho=self._measure))",
         "        if self._meter._look(worst)[0].values.max() < 5:\n            return []\n"
         "        return self._meter.ask(Measure(batches=worst, rho=self._measure))"),
        tests="battery/test_conformance.py::test_nobody_goes_around_the_meter",
    ),
    mutant(
        "a bad cell that raises instead of being mapped",
        "schema/columns.py",
        ("        codes = np.where(codes < 0, self.other_code, codes)\n",
         "        if (codes < 0).any():\n            raise ValueError(f'bad cell in {self.name}')\n"),
        tests="sources/test_cells.py battery/test_conformance.py::test_source",
    ),
    # ------------------------------------------------------------------ promises to users
    mutant(
        "a certificate that subtracts its margin",
        "privacy/certificate.py",
        ("alpha = (noisy + margin + 0.5 + rows_margin) / fewest", "alpha = (noisy - margin + 0.5 + rows_margin) / fewest"),
        tests="api/test_release.py bundle/test_bundle.py privacy/test_meter.py",
    ),
    mutant(
        "one round too many",
        "mechanisms/mwem.py",
        ("return play(data, query, rounds=1 + rounds, watcher=watcher", "return play(data, query, rounds=2 + rounds, watcher=watcher"),
        tests="battery/test_conformance.py::test_mechanism[mwem]",
    ),
    mutant(
        "a report that runs what a column is called",
        "bundle/report.py",
        ("autoescape=True", "autoescape=False"),
        tests="bundle/test_report_escaping.py",
    ),
    mutant(
        "cells that a spreadsheet would run",
        "bundle/export.py",
        ("[cell if raw else _harmless(cell) for cell in cells]", "cells"),
        tests="bundle/test_export.py",
    ),
    mutant(
        "a model that keeps rows outside its condition",
        "game/fitting/mixture.py",
        ("                cut[span][~allowed(self.schema, box, c)] = 0\n", ""),
        tests="bundle/test_model.py",
    ),
    # ------------------------------------------------------------------ what readers planted and no test noticed
    mutant(
        "half the noise on the count of blocks that passed",
        BLOCKS,
        ("noise.laplace(1, 1 / plan.inner)[0]", "noise.laplace(1, 1 / (2 * plan.inner))[0]"),
        tests="privacy/test_argmin.py::test_the_exact_law_of_blocks_is_that_of_its_definition",
    ),
    mutant(
        "rows of blocks turned around instead of shuffled",
        BLOCKS,
        ("    for i in range(len(order) - 1, 0, -1):  # Fisher and Yates\n"
         "        j = noise.below(i + 1)\n"
         "        order[i], order[j] = order[j], order[i]\n",
         "    order = np.roll(order, noise.below(len(order)))\n"),
        tests="privacy/test_argmin.py::test_the_exact_law_of_blocks_is_that_of_its_definition",
    ),
    mutant(
        "a shuffle that leaves no row where it was",
        BLOCKS,
        ("j = noise.below(i + 1)", "j = noise.below(i)"),
        tests="privacy/test_argmin.py::test_the_exact_law_of_blocks_is_that_of_its_definition",
    ),
    mutant(
        "a threshold for blocks that is one scale too low",
        BLOCKS,
        ("return (1 + log_up(1 / self.inner_delta)) / self.inner", "return log_up(1 / self.inner_delta) / self.inner"),
        tests="privacy/test_argmin.py::test_totals_of_a_plan_stay_inside_the_promise",
    ),
    mutant(
        "every run of a block at the whole epsilon",
        BLOCKS,
        ("perturbation(task, rules, plan.run_epsilon,", "perturbation(task, rules, plan.epsilon,"),
        tests="privacy/test_argmin.py::test_blocks_are_charged_for_the_plan_and_run_at_what_it_says",
    ),
    mutant(
        "blocks charged the delta of their count alone",
        BLOCKS,
        ("epsilon=plan.epsilon, delta=plan.delta),)", "epsilon=plan.epsilon, delta=plan.inner_delta),)"),
        tests="privacy/test_argmin.py::test_blocks_are_charged_for_the_plan_and_run_at_what_it_says",
    ),
    mutant(
        "a reservation that forgets delta",
        SESSION,
        ("    if play.delta:\n", "    if False:\n"),
        tests="api/test_session.py::test_what_is_reserved_covers_every_part_of_the_allowance",
    ),
    mutant(
        "a reservation that forgets the curve",
        SESSION,
        ("    if play.curve is not None:\n", "    if False:\n"),
        tests="api/test_session.py::test_what_is_reserved_covers_every_part_of_the_allowance",
    ),
    mutant(
        "a reservation under another relation than the release's",
        SESSION,
        ("self.promise.label, events, self.neighbours)", "self.promise.label, events, Neighbours.REPLACE_ONE)"),
        tests="api/test_session.py::test_what_is_reserved_covers_every_part_of_the_allowance",
    ),
    mutant(
        "a relation in plain text that is not the same as itself",
        SESSION,
        ("relation = Neighbours(neighbours)  #", "relation = neighbours  #"),
        tests="api/test_session.py::test_what_is_reserved_covers_every_part_of_the_allowance",
    ),
    mutant(
        "a failure that keeps what it came from",
        SESSION,
        ("        failure.__context__ = None\n", ""),
        tests="api/test_session.py::test_whatever_goes_wrong_after_the_charge_says_that_it_is_spent",
    ),
    mutant(
        "a request that nobody asks the mechanism about",
        "api/request.py",
        ("    chosen.check(brief)\n", ""),
        tests="api/test_request.py",
    ),
    mutant(
        "a private number of rows that is not reserved for",
        "api/request.py",
        ("    whole = decision.cost + Cost(rho - decision.means.rho)\n", "    whole = decision.cost\n"),
        tests="api/test_request.py::test_what_is_reserved_for_a_private_number_of_rows_is_all_of_the_promise",
    ),
    mutant(
        "a mechanism that decides on means of its own",
        "api/request.py",
        ("if type(decision) is not Decision or (decision.brief, decision.means) != (brief, means):", "if False:"),
        tests="api/test_request.py::test_a_decision_on_anything_but_the_request_is_refused_before_a_charge",
    ),
    mutant(
        "what only says that it equals the request's is carried on",
        "api/request.py",
        ("    return replace(decision, brief=brief, means=means)\n", "    return decision\n"),
        tests="api/test_request.py::test_means_that_claim_to_be_the_requests_are_not_carried_on",
    ),
    mutant(
        "a play below 0 that hides what the certificate spends",
        SESSION,
        ("    if not plain.is_sound:\n", "    if False:\n"),
        tests="api/test_session.py::test_a_part_below_0_is_refused_before_anything_is_charged",
    ),
    mutant(
        "a threshold that depends on how many cells are occupied",
        MEASURE,
        ("threshold = threshold_for(counts.cells, sigma, most)",
         "threshold = threshold_for(counts.cells - int(np.count_nonzero(counts.values)), sigma, most)"),
        tests="privacy/test_wide.py::test_the_threshold_is_the_same_however_many_cells_are_occupied",
    ),
    mutant(
        "soft_argmin looks before it pays",
        METER,
        ("        account.charge(*priced.events)\n",
         "        _ = kind.name == 'soft_argmin' and self._look(priced.reads)\n        account.charge(*priced.events)\n"),
        tests="privacy/test_meter.py::test_every_verb_charges_before_it_looks",
    ),
    mutant(
        "mistakes looks before it pays",
        METER,
        ("        account.charge(*priced.events)\n",
         "        _ = kind.name == 'mistakes' and self._look(priced.reads)\n        account.charge(*priced.events)\n"),
        tests="privacy/test_meter.py::test_every_verb_charges_before_it_looks",
    ),
    mutant(
        "argmin looks before it pays",
        METER,
        ("        account.charge(*priced.events)\n",
         "        _ = kind.name == 'argmin' and self._look(priced.reads)\n        account.charge(*priced.events)\n"),
        tests="privacy/test_meter.py::test_every_verb_charges_before_it_looks",
    ),
    mutant(
        "argmin_in_blocks looks before it pays",
        METER,
        ("        account.charge(*priced.events)\n",
         "        _ = kind.name == 'argmin_in_blocks' and self._look(priced.reads)\n        account.charge(*priced.events)\n"),
        tests="privacy/test_meter.py::test_every_verb_charges_before_it_looks",
    ),
    mutant(
        "resample looks before it pays",
        METER,
        ("        account.charge(*priced.events)\n",
         "        _ = kind.name == 'resample' and self._look(priced.reads)\n        account.charge(*priced.events)\n"),
        tests="privacy/test_meter.py::test_no_verb_looks_at_what_it_cannot_pay_for",
    ),
    mutant(
        "a certificate that skips the last batch",
        CERTIFY,
        ("noisy = int(errors.max()) + int", "noisy = int(errors[: max(1, len(errors) - 1)].max()) + int"),
        tests="privacy/test_meter.py::test_a_certificate_covers_every_batch_wherever_the_worst_is",
    ),
    mutant(
        "kept queries charged for one record less than there are",
        RESAMPLE,
        ("rows=rows, records=records, candidates=candidates,", "rows=rows, records=max(1, records - 1), candidates=candidates,"),
        tests="privacy/test_resampling.py::test_where_nothing_is_kept_the_exact_law_meets_the_charge_for_so_many_records",
    ),
    mutant(
        "kept queries charged for a sharpness of one record less",
        "privacy/resampling.py",
        ("kappa * milestone(records) + TABLE_ERROR)", "kappa * (milestone(records) - 1) + TABLE_ERROR)"),
        tests="privacy/test_resampling.py::test_where_nothing_is_kept_the_exact_law_meets_the_charge_for_so_many_records",
    ),
    # ------------------------------------------------------------------ of the same kind
    mutant(
        "the same bytes for every draw of a size",
        NOISE,
        ("self._entropy = entropy\n", "self._entropy = __import__('functools').lru_cache(entropy)\n"),
        tests="privacy/test_meter.py::test_no_two_numbers_share_their_noise",
    ),
    mutant(
        "a certificate whose tail is twice what it says",
        "privacy/certificate.py",
        ("inv_cdf(1 - ERROR_TAIL)", "inv_cdf(1 - 2 * ERROR_TAIL)"),
        tests="privacy/test_meter.py::test_a_bound_holds_for_all_noise_but_its_two_percents",
    ),
    mutant(
        "a certificate that forgets that n is noisy",
        "privacy/certificate.py",
        ("(noisy + margin + 0.5 + rows_margin) / fewest", "(noisy + margin + 0.5) / fewest"),
        tests="privacy/test_meter.py::test_a_bound_holds_for_all_noise_but_its_two_percents",
    ),
    mutant(
        "a certificate that forgets that answers are rounded",
        "privacy/certificate.py",
        ("(noisy + margin + 0.5 + rows_margin)", "(noisy + margin + rows_margin)"),
        tests="privacy/test_meter.py::test_a_bound_holds_for_all_noise_but_its_two_percents",
    ),
    mutant(
        "the noise of n left out of the certificate",
        METER,
        ("max(1, int(answer.counts[0])), answer.sigma", "max(1, int(answer.counts[0])), Fraction(0)"),
        tests="privacy/test_meter.py::test_n_is_private_under_add_remove",
    ),
    mutant(
        "a delta that the conversion to epsilon forgets",
        "privacy/accounting/accountant.py",
        ("rest = delta - self.delta", "rest = delta"),
        tests="privacy/test_budget.py",
    ),
    mutant(
        "a delta that the conversion to delta forgets",
        "privacy/accounting/accountant.py",
        ("        if self.delta == 0:\n            return renyi\n", "        if self.delta < 1:\n            return renyi\n"),
        tests="privacy/test_budget.py",
    ),
    mutant(
        "of several deltas only the largest",
        "privacy/accounting/accountant.py",
        ("self.delta + other.delta, bound", "max(self.delta, other.delta), bound"),
        tests="privacy/test_budget.py",
    ),
    mutant(
        "a curve that may exceed its allowance",
        "privacy/accounting/accountant.py",
        ("and under and bounded", "and bounded"),
        tests="privacy/test_budget.py privacy/test_meter.py::test_no_verb_looks_at_what_it_cannot_pay_for",
    ),
    mutant(
        "a bound on a curve that may exceed its allowance",
        "privacy/accounting/accountant.py",
        ("and under and bounded", "and under"),
        tests="privacy/test_budget.py",
    ),
    mutant(
        "as much for each draw of a query as was asked for all",
        SELECT,
        ("ScoreTable.within(rho / draws, multiplier,", "ScoreTable.within(rho, multiplier,"),
        tests="privacy/test_meter.py::test_a_verb_costs_what_was_asked_and_no_more",
    ),
    mutant(
        "as much for each draw of a marginal as was asked for all",
        SELECT_MARGINAL,
        ("ScoreTable.within(rho / draws, sensitivity,", "ScoreTable.within(rho, sensitivity,"),
        tests="privacy/test_meter.py::test_a_verb_costs_what_was_asked_and_no_more",
    ),
    mutant(
        "a soft optimum for the cheapest mistake",
        SOFT_ARGMIN,
        ("costs, top = asked.task.costs, max(asked.task.costs)", "costs, top = asked.task.costs, min(asked.task.costs)"),
        tests="privacy/test_meter.py::test_exact_law[soft_argmin,_costs_apart,_replace-one]",
    ),
    mutant(
        "a residual asked for twice and paid for once",
        "privacy/verbs/residuals.py",
        ("whole[batch.columns] += weight", "whole[batch.columns] = weight"),
        tests="privacy/test_meter.py::test_exact_law[measure_residuals,_one_of_them_twice,_replace-one]",
    ),
    mutant(
        "one coin for all slots",
        RESAMPLE,
        ("            coins.append(noise.bernoulli_exp(", "            coins.append(coins[0] if coins else noise.bernoulli_exp("),
        tests="privacy/test_resampling.py::test_slots_are_kept_or_replaced_each_by_itself",
    ),
    mutant(
        "slots priced as if they were kept more often than they can be",
        "privacy/resampling.py",
        ("gamma + 2 * kappa * rows, kappa", "gamma + kappa * rows, kappa"),
        tests="privacy/test_meter.py::test_exact_law[resample,_mostly_kept,_40_records]",
    ),
    mutant(
        "a discriminator under a private number of rows",
        DISCRIMINATE,
        ('        if public.neighbours is not Neighbours.REPLACE_ONE:\n            raise NotSupported("A discriminator',
         '        if False:\n            raise NotSupported("A discriminator'),
        tests="privacy/test_logistic.py",
    ),
    mutant(
        "a discriminator covered for one side of a pair",
        "privacy/logistic.py",
        ("math.ceil((2 * self.off) ** 2)", "math.ceil(self.off**2)"),
        tests="privacy/test_logistic.py",
    ),
    mutant(
        "exact counts that every meter shares",
        METER,
        ("self._exact: dict[QueryClass, Counts] = {}", "self._exact: dict[QueryClass, Counts] = EXACT"),
        ("@dataclass\nclass Account:", "EXACT: dict[QueryClass, Counts] = {}\n\n\n@dataclass\nclass Account:"),
        tests="privacy/test_meter.py::test_exact_law[measure_all,_replace-one]",
    ),
    mutant(
        "a closed meter that keeps what it counted",
        METER,
        ("        self._exact.clear()\n", ""),
        tests="privacy/test_meter.py::test_a_meter_tells_nothing_by_itself",
    ),
    # ------------------------------------------------------------------ the closed room
    mutant(
        "a verb that says it equals one of the list is served",
        METER,
        ("if not any(kind is one for one in VERBS):", "if not any(kind == one for one in VERBS):"),
        tests="privacy/test_closed_room.py::test_a_verb_of_somebody_elses_is_refused_before_a_charge",
    ),
    mutant(
        "a subclass of a verb is served",
        METER,
        ("if not any(kind is one for one in VERBS):", "if not any(issubclass(kind, one) for one in VERBS):"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "a subclass of a trusted type is let in",
        "privacy/trusted.py",
        ("if vars(sys.modules.get(module, object)).get(own) is kind:", "if issubclass(kind, vars(sys.modules.get(module, object)).get(own) or ()):"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "a type is trusted by the name that it gives itself",
        "privacy/trusted.py",
        ("if vars(sys.modules.get(module, object)).get(own) is kind:", "if f'{kind.__module__}.{kind.__qualname__}' == name:"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "what is let in is not copied",
        "privacy/trusted.py",
        ("    values = {one.name: getattr(thing, one.name) for one in fields(kind)}\n", "    return thing\n    values = {one.name: getattr(thing, one.name) for one in fields(kind)}\n"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "a replaced row that is paid for in one bin only",
        "queries/binned.py",
        ("        return 1 if neighbours is Neighbours.ADD_REMOVE_ONE else 2\n", "        return 1\n"),
        tests="privacy/test_measuring_bins.py",
    ),
    mutant(
        "bins that leave gaps, or that are no numbers of bins",
        "queries/binned.py",
        ("len(bins) == size and min(bins) == 0 and max(bins) < len(set(bins))", "True"),
        tests="privacy/test_measuring_bins.py queries/test_binned.py",
    ),
    mutant(
        "bins that are answered at full resolution",
        METER,
        ("batch.added_up(whole) if isinstance(batch, BinnedMarginal) else whole", "whole"),
        tests="privacy/test_measuring_bins.py",
    ),
    mutant(
        "columns of a marginal that may change after it was priced",
        METER,
        ("            return self._fitting(Marginal(batch.positions, batch.shape))\n", "            return batch\n"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "an answer that hands out the room's own copy of a batch",
        "privacy/verbs/base.py",
        ("r if type(r.batch) is Marginal else Read(one, r.size)", "r"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "columns that the table does not have are looked for behind it",
        METER,
        ("not all(0 <= column < len(shape) for column in batch.columns) or", "False or"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "a score that is believed to be one",
        SELECT_MARGINAL,
        ("next((one for one in MarginalScore if one is self.score), None)", "self.score if isinstance(self.score, MarginalScore) else None"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "an allowance in numbers of somebody's own kind",
        SESSION,
        ("relation, _plain(play), certified", "relation, play, certified"),
        tests="api/test_session.py",
    ),
    mutant(
        "a frame that holds what a failure came from",
        SESSION,
        ("        del problem, trace  # a traceback leads to this frame\n", ""),
        tests="api/test_session.py",
    ),
    mutant(
        "a batch that is taken as it is, with whatever hangs on it",
        "privacy/trusted.py",
        ("copy: QueryClass = _rebuilt(batch)", "copy: QueryClass = batch"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "noise stretched over more counts than it was drawn for",
        METER,
        (" or not all(is_table(counts) for counts in exact)", ""),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "numbers of NumPy kept inside a fraction",
        "privacy/requests.py",
        ("return Fraction(int(value.numerator), int(value.denominator))", "return Fraction(value)"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "numbers of cells that may change after they were checked",
        "privacy/requests.py",
        ("None if one.keys is None else np.array(one.keys)", "one.keys"),
        tests="privacy/test_closed_room.py",
    ),
    mutant(
        "a plan of blocks that is believed",
        BLOCKS,
        ("            if request == plan:\n                return plan\n", "            return request\n"),
        tests="privacy/test_closed_room.py",
    ),
    # ------------------------------------------------------------------ functions that do nothing
    mutant(
        "a verification that checks nothing",
        "bundle/verify.py",
        ("    return checks\n", "    return []\n"),
        tests="battery/test_fuzz.py::test_an_altered_bundle_fails_verification_or_is_refused_in_a_sentence",
    ),
    mutant(
        "a verification that finds everything in order",
        "bundle/verify.py",
        ("return Check(claim, bool(holds), detail)", "return Check(claim, True, detail)"),
        tests="battery/test_fuzz.py::test_an_altered_bundle_fails_verification_or_is_refused_in_a_sentence",
    ),
    mutant(
        "files that are never compared with the manifest",
        "bundle/release.py",
        ("        if not (place / name).is_file() or _sha256(place / name) != digest:\n", "        if False:\n"),
        tests="battery/test_fuzz.py::test_an_altered_bundle_fails_verification_or_is_refused_in_a_sentence",
    ),
    mutant(
        "a rule that is read whatever was altered",
        "learning/learned.py",
        ("        if not sound:\n            raise BundleError(\"This rule cannot", "        if False:\n            raise BundleError(\"This rule cannot"),
        tests="battery/test_fuzz.py::test_an_altered_rule_is_refused_in_a_sentence_or_is_the_same_rule",
    ),
    mutant(
        "an audit of laws that holds whatever it finds",
        "audit/laws.py",
        ("    holds = alike and most <= ROUNDING and least > tight\n", "    holds = True\n"),
        tests="battery/test_audit.py::test_replays_and_laws_show_a_verb_that_charges_half",
    ),
    mutant(
        "a zip code that YAML reads as a number",
        "schema/places.py",
        (
            '"enum" | "pattern", *_) | ("understudy", "rules", *_):\n            return Place.TEXT',
            '"enum" | "pattern", *_) | ("understudy", "rules", *_):\n            return Place.VALUE',
        ),
        tests="schema/test_yaml.py",
    ),
    mutant(
        "the first person of a file without a header is shown",
        "sources/header.py",
        ("    if _words_there(schema, names, lacking=0) >= 2:\n", "    if names:\n"),
        tests="schema/test_schema_words.py",
    ),
    # ------------------------------------------------------------------ Gaussian noise alone
    mutant(
        "Gaussian noise is counted as half of what it is",
        GAUSSIAN,
        ("for x in (2 * rho, least, epsilon)", "for x in (rho, least, epsilon)"),
        tests="privacy/test_gaussian.py",
    ),
    mutant(
        "one part in a hundred of a Gaussian's delta is forgotten",
        GAUSSIAN,
        ("return gap.ln() - x * x / 2", "return (gap * 99 / 100).ln() - x * x / 2"),
        tests="privacy/test_gaussian.py::test_the_bound_is_above_the_exact_law_and_near_it",
    ),
    mutant(
        "the tail of a normal law is rounded the wrong way",
        GAUSSIAN,
        ("return above * (1 + OFF) if up else", "return below * (1 - OFF) if up else"),
        tests="privacy/test_gaussian.py::test_tails_are_enclosed",
    ),
    mutant(
        "discrete noise is taken for continuous noise",
        GAUSSIAN,
        ("_log_delta_normal((1 + c) * b, e)[0], b * floor * 2 * r / (1 - r)", "_log_delta_normal(b, e)[0], Decimal(0)"),
        tests="privacy/test_gaussian.py",
    ),
    mutant(
        "counts are said to be spread and nobody asks",
        "privacy/accounting/budget.py",
        ("else self.spread / (2 * self.rho)", "else Fraction(1, 10**9)"),
        tests="privacy/test_accountants.py::test_a_gaussian_limit_is_kept_by_gaussian_noise_alone",
    ),
    mutant(
        "any noise passes for Gaussian",
        "privacy/accounting/accountant.py",
        ("self.least_variance is not None and self.least_variance >= least", "self.least_variance is None or self.least_variance >= least"),
        tests="privacy/test_accountants.py",
    ),
    mutant(
        "a sum is Gaussian if a part of it is",
        "privacy/accounting/accountant.py",
        ("if variances and len(variances) == len(costly) else None", "if variances else None"),
        tests="privacy/test_accountants.py::test_a_sum_is_gaussian_if_everything_in_it_is",
    ),
    mutant(
        "a Gaussian allowance lets other noise through",
        "privacy/accounting/accountant.py",
        ("return inside and under and bounded and alike", "return inside and under and bounded"),
        tests="privacy/test_accountants.py::test_what_is_not_gaussian_noise_of_such_a_sigma_is_refused_and_nothing_looked_at",
    ),
    mutant(
        "a Gaussian limit counts other noise",
        "privacy/accounting/accountant.py",
        ("if self.delta or (least is not None and not self.is_gaussian(least)):", "if self.delta:"),
        tests="privacy/test_accountants.py::test_a_gaussian_limit_refuses_what_it_cannot_count",
    ),
    mutant(
        "a limit forgets its accountant",
        LEDGER,
        ('accountant=body.get("accountant", Accountant.RHO),', "accountant=Accountant.RHO,"),
        tests="privacy/test_accountants.py::test_a_limit_is_read_back_with_its_accountant_and_an_old_one_counts_by_rho",
    ),
    mutant(
        "a limit by rho follows a Gaussian one that releases were made under",
        LEDGER,
        ("if limit.accountant is Accountant.RHO and state.stays_gaussian and first is not None:", "if False:"),
        tests="privacy/test_accountants.py::test_the_limit_at_the_first_charge_fixes_the_accountant",
    ),
    mutant(
        "the last limit, not the first charge's, fixes the accountant",
        LEDGER,
        ("first_limit = first_limit if charges else limit", "first_limit = limit"),
        tests="privacy/test_accountants.py::test_the_limit_at_the_first_charge_fixes_the_accountant",
    ),
    mutant(
        "a first limit after releases picks its accountant",
        LEDGER,
        ("if limit.accountant is Accountant.GAUSSIAN and state.charges:", "if limit.accountant is Accountant.GAUSSIAN and first:"),
        tests="privacy/test_accountants.py::test_a_first_limit_after_releases_counts_by_rho",
    ),
    mutant(
        "a limit that is not what will be read",
        LEDGER,
        ("        if limit != budget:\n", "        if False:\n"),
        tests="privacy/test_accountants.py::test_a_limit_is_as_it_will_be_read_and_has_no_spread_of_its_own",
    ),
    mutant(
        "a bound for rho where its digits are too few",
        GAUSSIAN,
        ("    if rho > MOST_RHO:\n", "    if False:\n"),
        tests="privacy/test_gaussian.py::test_no_bound_is_given_where_digits_are_too_few",
    ),
    mutant(
        "a ledger is read by whichever accountant says less",
        LEDGER,
        ("return Accountant.GAUSSIAN if self.limit is None else self.limit.accountant", "return Accountant.GAUSSIAN"),
        tests="privacy/test_accountants.py::test_a_limit_by_rho_counts_a_gaussian_release_by_its_rho",
    ),
    mutant(
        "a reservation forgets that noise is Gaussian",
        SESSION,
        ("plain = Cost(rho, exact, delta, bound, least)", "plain = Cost(rho, exact, delta, bound)"),
        tests="privacy/test_accountants.py",
    ),
    mutant(
        "the certificate's account takes any noise",
        METER,
        ("Account(Cost(certify, least_variance=play.least_variance))", "Account(Cost(certify))"),
        tests="privacy/test_accountants.py::test_the_certificate_is_held_to_the_same_sigma",
    ),
]  # fmt: skip
