"""The model of a release: rows without limit, rows under a condition, and a file that runs nothing."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file

import understudy as us
from understudy.bundle.model import MODEL_FILE, load_model, save_model
from understudy.bundle.release import Release
from understudy.checks import SMALL, small_table
from understudy.cli.main import main
from understudy.counting.tally import CodedRows
from understudy.errors import BundleError, ParameterError
from understudy.game.fitting.mixture import Mixture
from understudy.queries.condition import Condition
from understudy.queries.relaxed import Chances

CELLS = np.asarray(list(itertools.product(*(range(size) for size in SMALL.shape))), np.int32)
CONDITIONS = [
    "a = 1",
    "a != 0 and c",
    "b >= 2 or a = 0",
    "not (a = 2 or b in (0, 3))",
    "a = 1 and (b = 0 or c)",
]


def mixture(relaxed_rows: int = 5, seed: int = 0) -> Mixture:
    rng = np.random.default_rng(seed)
    values = np.concatenate(
        [rng.dirichlet(np.full(size, 0.4), relaxed_rows).T for size in SMALL.shape]
    ).astype(np.float32)
    return Mixture(SMALL, Chances(np.ascontiguousarray(values), np.asarray([0, 3, 7, 9], np.int64)))


def joint(model: Mixture) -> np.ndarray:
    """The chance of every possible row, by definition."""
    columns = [model.chances.column(c).astype(float) for c in range(3)]
    return np.asarray([np.mean(columns[0][a] * columns[1][b] * columns[2][c]) for a, b, c in CELLS])


def frequencies(codes: np.ndarray) -> np.ndarray:
    return np.bincount(np.ravel_multi_index(codes.T, SMALL.shape), minlength=len(CELLS)) / len(
        codes
    )


@pytest.fixture(scope="module")
def released() -> Release:
    return us.release(
        small_table(),
        schema=SMALL,
        epsilon=2,
        mechanism="rap",
        parameters={"relaxed_rows": 60},
        seed=3,
    )


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditioning_is_bayes_rule(text: str) -> None:
    model, condition = mixture(), Condition.parse(text, SMALL)
    given, whole, holds = model.conditional(condition), joint(model), condition.holds(CELLS)
    assert given.share == pytest.approx(whole[holds].sum(), rel=1e-5)
    assert 1 <= given.carriers <= len(given.weights)
    codes = given.rows(60_000, np.random.default_rng(1))
    assert condition.holds(codes).all(), "no row may break the condition"
    expected = np.where(holds, whole, 0) / whole[holds].sum()
    # 3 standard deviations of a share of a half
    assert np.abs(frequencies(codes) - expected).max() < 0.006


def test_rows_without_a_condition_follow_the_mixture() -> None:
    model = mixture()
    assert (
        np.abs(frequencies(model.rows(60_000, np.random.default_rng(1))) - joint(model)).max()
        < 0.006
    )


def test_a_condition_that_no_row_meets_is_refused() -> None:
    values = mixture().chances.values.copy()
    values[0], values[1] = 0, values[1] + values[0]
    model = Mixture(SMALL, Chances(values, np.asarray([0, 3, 7, 9], np.int64)))
    for text in ("a = 0 and b = 1", "a = 1 and a = 2"):
        with pytest.raises(ParameterError, match="No row of this model"):
            model.conditional(Condition.parse(text, SMALL))


def test_samples_are_in_the_users_types_and_repeat_with_a_seed(released: Release) -> None:
    drawn = released.sample(1_000, seed=4)
    assert (
        drawn.table.schema == released.synthetic.schema
        and drawn.table.num_rows == len(drawn.codes) == 1_000
    )
    assert np.array_equal(drawn.codes, released.sample(1_000, seed=4).codes)
    assert not np.array_equal(drawn.codes, released.sample(1_000).codes)
    assert (drawn.share, drawn.means, drawn.doubtful) == (1.0, "any row", None)


def test_a_sample_under_a_condition_is_honest_about_it(released: Release) -> None:
    assert released.model is not None
    drawn = released.sample_where("a = 0 and c = 0", seed=1)
    assert len(drawn.codes) == round(drawn.share * len(released.codes)), (
        "as many as the release would have"
    )
    assert set(map(tuple, drawn.codes[:, [0, 2]].tolist())) == {(0, 0)} and drawn.doubtful is None
    assert drawn.means == "a is 0, c is 0" and 1 < drawn.carriers <= released.model.chances.rows
    rare = released.sample_where("a = 2 and b = 0 and c = 1", 10)
    assert (
        rare.share < released.certificate.alpha
        and "guess" in str(rare.doubtful)
        and len(rare.codes) == 10
    )


def test_the_bound_for_new_rows_is_the_certificate_and_a_public_distance(released: Release) -> None:
    assert released.alpha_of(released.sample(10)) > released.certificate.alpha, (
        "ten rows answer badly, and it is said"
    )
    same = released.sample(10)
    object.__setattr__(same, "codes", released.codes)
    assert released.alpha_of(same) == pytest.approx(released.certificate.alpha)
    drawn = released.sample(5_000, seed=2)
    truth, made = small_table(), drawn.codes
    for pair in ((0, 1), (0, 2), (1, 2)):
        shape = tuple(SMALL.shape[c] for c in pair)
        flat = [
            np.bincount(np.ravel_multi_index(rows[:, pair].T, shape), minlength=np.prod(shape))
            / len(rows)
            for rows in (truth, made)
        ]
        assert np.abs(flat[0] - flat[1]).max() <= released.alpha_of(drawn)


def test_the_bound_is_a_sum_and_wants_rows_of_the_same_schema(released: Release) -> None:
    near = released.sample(300, seed=1)
    gap = max(
        np.abs(
            batch.counts(CodedRows(near.codes, SMALL.shape)).dense() / 300
            - own.dense() / len(released.codes)
        ).max()
        for batch, own in zip(released.workload, released.answers().counts, strict=True)
    )
    assert 0 < gap < 0.5 and released.alpha_of(near) == pytest.approx(
        released.certificate.alpha + gap
    )
    for codes in (near.codes[:, :2], near.codes + 5, -near.codes - 1, near.codes[:0]):
        object.__setattr__(near, "codes", codes)
        with pytest.raises(ParameterError, match="another schema"):
            released.alpha_of(near)


def test_a_condition_that_no_query_is_about_is_doubtful_however_common() -> None:
    made = us.release(
        small_table(),
        schema=SMALL,
        workload="1-way",
        epsilon=5,
        mechanism="projection",
        parameters={"relaxed_rows": 20},
    )
    assert made.sample_where("a = 0", 5).doubtful is None
    both = made.sample_where("a = 0 and c = 0", 5)
    assert both.share > made.certificate.alpha and "No marginal of the workload" in str(
        both.doubtful
    )


def test_verify_notices_a_model_that_the_rows_were_not_drawn_from(
    released: Release, tmp_path: Path
) -> None:
    place = released.save(tmp_path / "r")
    other = mixture(60, seed=9)
    save_model(other, place / MODEL_FILE)
    rehash(place)
    (broken_check,) = [check for check in us.verify(place) if not check.holds]
    assert "draw from the model" in broken_check.claim
    save_file(
        {"chances": other.chances.values}, str(place / MODEL_FILE), metadata={"schema": "0" * 64}
    )
    rehash(place)
    with pytest.raises(BundleError):
        us.Release.load(place)


@pytest.mark.parametrize("rows", [0, -1, True, 2.5, 10**12, "7"])
def test_senseless_numbers_of_rows_are_refused(released: Release, rows: Any) -> None:
    with pytest.raises(ParameterError, match="rows must be"):
        released.sample(rows)


def test_a_release_of_rows_has_no_model(tmp_path: Path) -> None:
    made = us.release(small_table(), schema=SMALL, epsilon=1, mechanism="independent")
    assert made.sample(5).kind == "fitted"
    place = made.save(tmp_path / "r")
    assert not (place / MODEL_FILE).exists() and us.Release.load(place).model is None


# ---------------------------------------------------------------------- the file


def test_a_bundle_keeps_its_model_to_the_bit(released: Release, tmp_path: Path) -> None:
    place = released.save(tmp_path / "r")
    again = us.Release.load(place)
    assert again.model is not None and released.model is not None
    assert np.array_equal(again.model.chances.values, released.model.chances.values)
    assert np.array_equal(
        again.sample_where("b < 2", 50, seed=1).codes,
        released.sample_where("b < 2", 50, seed=1).codes,
    )
    assert (place / MODEL_FILE).stat().st_mode == (place / "manifest.json").stat().st_mode, (
        "whoever may read the bundle may read its model"
    )
    checks = us.verify(place)
    assert all(check.holds for check in checks) and "8 files" in checks[0].detail


def broken(values: np.ndarray, how: str) -> dict[str, np.ndarray]:
    changed = values.copy()
    if how == "a number that is none":
        changed[0, 0] = np.nan
    elif how == "below zero":
        changed[0, 0], changed[1, 0] = -0.25, changed[1, 0] + changed[0, 0] + 0.25
    elif how == "sums of two":
        changed[:3] *= 2
    elif how == "another type":
        return {"chances": changed.astype(np.float64)}
    elif how == "another schema":
        return {"chances": changed[:-1]}
    elif how == "no rows":
        return {"chances": changed[:, :0]}
    elif how == "more tensors":
        return {"chances": changed, "more": changed}
    elif how == "another name":
        return {"chance": changed}
    elif how == "one dimension":
        return {"chances": changed.ravel()}
    return {"chances": np.ascontiguousarray(changed)}


@pytest.mark.parametrize(
    "how",
    ["a number that is none", "below zero", "sums of two", "another type", "another schema", "no rows", "more tensors", "another name",
     "one dimension"],
)  # fmt: skip
def test_a_model_that_is_none_is_refused_even_when_its_hash_is_right(
    how: str, released: Release, tmp_path: Path
) -> None:
    place = released.save(tmp_path / "r")
    found = load_file(str(place / MODEL_FILE))["chances"]
    save_file(broken(found, how), str(place / MODEL_FILE))
    rehash(place)
    with pytest.raises(BundleError):
        us.Release.load(place)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04K\x01.",
        struct.pack("<Q", 2**62) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        b"PK\x03\x04" + b"0" * 50,
    ],
)
def test_other_files_are_no_models(content: bytes, released: Release, tmp_path: Path) -> None:
    """Empty; a pickle; a header that claims exabytes; a header that is a list; an archive."""
    place = released.save(tmp_path / "r")
    (place / MODEL_FILE).write_bytes(content)
    with pytest.raises(BundleError, match="differs"):
        us.Release.load(place)
    rehash(place)
    with pytest.raises(BundleError, match="cannot be read"):
        us.Release.load(place)


def test_a_model_cannot_be_added_or_taken_away_unnoticed(released: Release, tmp_path: Path) -> None:
    place = released.save(tmp_path / "r")
    (place / MODEL_FILE).unlink()
    with pytest.raises(BundleError):
        us.Release.load(place)
    other = us.release(small_table(), schema=SMALL, epsilon=1, mechanism="independent").save(
        tmp_path / "other"
    )
    save_model(mixture(), other / MODEL_FILE)
    assert not us.verify(other)[0].holds
    assert load_model(other / MODEL_FILE, SMALL).chances.rows == 5


def rehash(place: Path) -> None:
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["files"][MODEL_FILE] = hashlib.sha256((place / MODEL_FILE).read_bytes()).hexdigest()
    (place / "manifest.json").write_text(json.dumps(manifest))


# ---------------------------------------------------------------------- the command


def run(*words: str) -> Any:
    return CliRunner().invoke(main, ["sample", *words])


def test_the_command_draws_and_says_how_much_it_knows(released: Release, tmp_path: Path) -> None:
    place = str(released.save(tmp_path / "r"))
    made = run(place, "--rows", "300", "--out", str(tmp_path / "a.csv"))
    assert made.exit_code == 0 and "off by at most" in made.output
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 301
    some = run(
        place, "--where", "a = 2 and b = 0", "--rows", "7", "--out", str(tmp_path / "b.parquet")
    )
    assert some.exit_code == 0 and "a is 2, b is 0" in some.output and "guess" in some.output
    told = json.loads(run(place, "--where", "c", "--out", str(tmp_path / "c.csv"), "--json").output)
    assert told["rows"] == round(told["share"] * len(released.codes)) and told["doubtful"] is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "x.csv"], "--rows"),
        (["--rows", "0", "--out", "x.csv"], "rows must be"),
        (["--rows", "5", "--out", "x.txt"], "must end in"),
        (["--rows", "5", "--out", "manifest.csv"], "exists"),
        (["--where", "zodiac = leo", "--out", "x.csv"], "zodiac"),
    ],
)
def test_the_command_refuses_in_a_sentence(
    words: list[str], said: str, released: Release, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    released.save("r")
    (tmp_path / "manifest.csv").write_text("")
    refused = run("r", *words)
    assert refused.exit_code == 2 and said in refused.output and "Traceback" not in refused.output
