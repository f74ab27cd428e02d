"""The command: exit codes that scripts can rely on, one sentence a failure, and silence about
cells.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import understudy as us
from understudy.bundle.remarks import about_small
from understudy.checks import small_table
from understudy.cli.main import main
from understudy.privacy.certificate import round_up

SECRET = "s3cr3t-cell"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pd.DataFrame(small_table(), columns=list("abc")).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "schema.json").write_text(json.dumps({"a": 3, "b": 4, "c": 2}))
    return tmp_path


def release(data: Path, *words: str, out: str = "out") -> Result:
    return run(
        "release",
        str(data / "t.csv"),
        "--schema",
        str(data / "schema.json"),
        "--out",
        str(data / out),
        *words,
    )


def test_release_verify_budget(data: Path) -> None:
    made = release(
        data,
        "--epsilon",
        "1",
        "--workload",
        "2-way",
        "--mechanism",
        "mwem",
        "--set",
        "rounds=4",
        "--rows",
        "100",
        "--json",
    )
    assert made.exit_code == 0, made.output
    summary = json.loads(made.stdout)
    assert summary["rows"] == 100 and summary["mechanism"] == "mwem" and 0 < summary["alpha"] <= 1
    checked = run("verify", str(data / "out"), "--json")
    assert checked.exit_code == 0 and json.loads(checked.stdout)["sound"]
    spent = json.loads(run("budget", str(data / "t.csv"), "--json").stdout)
    assert len(spent["charges"]) == 1 and spent["neighbours"] == "replace-one"
    shown = run("budget", str(data / "t.csv"), "--limit-epsilon", "1.2", "--limit-delta", "1e-6")
    assert shown.exit_code == 0 and "Limit: epsilon 1.2" in shown.stdout
    refused = release(data, "--epsilon", "1", out="out2")
    assert refused.exit_code == 3 and "nothing was charged" in refused.stderr


@pytest.mark.parametrize("delta", [None, "1e-6", "1e-9", "1e-4"])
def test_what_is_said_to_be_left_is_granted_and_hardly_more(data: Path, delta: str | None) -> None:
    table = str(data / "t.csv")
    assert release(data, "--epsilon", "1", "--mechanism", "independent", "--json").exit_code == 0
    assert json.loads(run("budget", table, "--json").stdout)["left"] is None  # no limit
    run("budget", table, "--limit-epsilon", "2", "--limit-delta", "1e-6")
    told = json.loads(
        run("budget", table, "--json", *([] if delta is None else ["--delta", delta])).stdout
    )["left"]
    assert told["delta"] == float(delta or "1e-6") and 0 < told["epsilon"] < 3
    shown = run("budget", table, "--delta", str(told["delta"])).stdout
    assert f"Left: about epsilon {told['epsilon']:.6g} at delta {told['delta']:.3g}" in shown
    settings = ["--mechanism", "independent", "--delta", str(told["delta"]), "--json"]
    refused = release(data, "--epsilon", str(1.05 * told["epsilon"]), *settings, out="more")
    assert (
        refused.exit_code == 3 and "At the limit's delta 1e-06 it costs epsilon" in refused.stderr
    )
    assert f"At most epsilon {told['epsilon']:.6g} at delta {told['delta']:.3g}" in refused.stderr
    assert release(data, "--epsilon", str(told["epsilon"]), *settings, out="rest").exit_code == 0


def test_add_remove_one(data: Path) -> None:
    made = release(
        data, "--epsilon", "1", "--delta", "1e-6", "--neighbours", "add-remove-one", "--json"
    )
    assert made.exit_code == 0 and json.loads(made.stdout)["neighbours"] == "add-remove-one"


@pytest.mark.parametrize(
    "words",
    [
        ["--epsilon", "0"],
        ["--epsilon", "nan"],
        ["--epsilon", "inf"],
        ["--epsilon", "lots"],
        ["--epsilon", "1_0"],
        ["--epsilon", "1", "--workload", ""],
        ["--epsilon", "1", "--mechanism", "mwem", "--set", "rounds=1000000000"],
        ["--epsilon", "1", "--delta", "1"],
        ["--epsilon", "1", "--delta", "0.01"],
        ["--epsilon", "1", "--mechanism", "magic"],
        ["--epsilon", "1", "--workload", "9-way"],
        ["--epsilon", "1", "--workload", "nowhere.yaml"],
        ["--epsilon", "1", "--set", "rounds"],
        ["--epsilon", "1", "--mechanism", "mwem", "--set", "rounds=x"],
        ["--epsilon", "1", "--rows", "0"],
        ["--epsilon", "1", "--neighbours", "x"],
        ["--epsilon", "1", "--ledger", "/no/such/place/l.jsonl"],
    ],
    ids=" ".join,
)
def test_bad_arguments_exit_2_with_one_sentence_and_no_charge(data: Path, words: list[str]) -> None:
    result = release(data, *words)
    assert result.exit_code == 2
    # which are the stages
    said = [line for line in result.stderr.splitlines() if not line.endswith("…")]
    assert len(said) == 1 and said[0].endswith(".")
    assert not (data / "t.csv.ledger.jsonl").exists()


def test_missing_things_exit_2(data: Path) -> None:
    assert (
        run(
            "release",
            str(data / "no.csv"),
            "--schema",
            str(data / "schema.json"),
            "--epsilon",
            "1",
            "--out",
            str(data / "o"),
        ).exit_code
        == 2
    )
    assert (
        run(
            "release",
            str(data / "t.csv"),
            "--schema",
            str(data / "no.json"),
            "--epsilon",
            "1",
            "--out",
            str(data / "o"),
        ).exit_code
        == 2
    )
    assert run("release", str(data / "t.csv")).exit_code == 2
    assert run("budget", str(data / "t.csv")).exit_code == 2
    assert run("verify", str(data)).exit_code == 1
    assert run("nonsense").exit_code == 2


def test_a_folder_in_use_is_refused_before_anything_is_spent(data: Path) -> None:
    result = run(
        "release",
        str(data / "t.csv"),
        "--schema",
        str(data / "schema.json"),
        "--epsilon",
        "1",
        "--out",
        str(data),
    )
    assert result.exit_code == 2 and "not empty" in result.stderr
    assert not (data / "t.csv.ledger.jsonl").exists()


def test_a_damaged_ledger_exits_4(data: Path) -> None:
    (data / "t.csv.ledger.jsonl").write_text("nonsense\n")
    assert release(data, "--epsilon", "1").exit_code == 4


def test_a_tampered_bundle_exits_1(data: Path) -> None:
    assert release(data, "--epsilon", "1").exit_code == 0
    manifest = json.loads((data / "out/manifest.json").read_text())
    manifest["certificate"]["alpha"] /= 2
    (data / "out/manifest.json").write_text(json.dumps(manifest))
    result = run("verify", str(data / "out"))
    assert result.exit_code == 1 and "NOT" in result.stdout


def test_a_check_that_does_not_apply_is_not_said_to_be_ok(data: Path) -> None:
    made = release(data, "--epsilon", "1", "--mechanism", "independent")
    assert "epsilon spent" in made.stdout and "epsilon_spent" not in made.stdout
    (data / "out" / "stranger.txt").write_text("")
    shown = run("verify", str(data / "out")).stdout.splitlines()
    marks = {line.split()[0] for line in shown if "released rows can be" in line}
    assert marks == {"–"} and sum(line.split()[0] == "ok" for line in shown if line.split()) > 5
    assert any("1 more file," in line for line in shown)
    told = json.loads(run("verify", str(data / "out"), "--json").stdout)["checks"]
    assert all(set(check) == {"claim", "holds", "detail"} for check in told)
    assert [check["holds"] for check in told if "draw from the model" in check["claim"]] == [True]


def test_advice_names_what_serves(data: Path) -> None:
    (data / "wide.json").write_text(json.dumps(dict.fromkeys("abc", 500)))
    words = [
        "release",
        str(data / "t.csv"),
        "--schema",
        str(data / "wide.json"),
        "--epsilon",
        "1",
        "--out",
        str(data / "wide"),
    ]
    refused = run(*words, "--mechanism", "mwem")
    assert refused.exit_code == 2 and "'arp'" in refused.stderr
    assert release(data, "--epsilon", "1", "--mechanism", "independent").exit_code == 0


def test_rows_are_drawn_from_releases_without_a_model(data: Path) -> None:
    assert release(data, "--epsilon", "1", "--mechanism", "independent").exit_code == 0
    more = run("sample", str(data / "out"), "--rows", "5", "--out", str(data / "more.csv"))
    assert more.exit_code == 0 and "5 rows" in more.stdout and "copies" not in more.stdout
    assert len((data / "more.csv").read_text().splitlines()) == 6


def test_noise_of_more_than_all_rows_is_said_so(data: Path) -> None:
    words = ["plan", "--schema", str(data / "schema.json"), "--rows", "50", "--epsilon", "0.001"]
    assert "more than all rows" in run(*words).stdout and not re.search(
        r"[0-9]{3}\.[0-9]+% of all", run(*words).stdout.replace("100.00%", "")
    )


def test_mechanisms_and_schema_check(data: Path) -> None:
    names = [m["name"] for m in json.loads(run("mechanisms", "--json").stdout)]
    assert {"independent", "mwem"} <= set(names)
    assert "independent" in run("mechanisms").stdout
    good = run("schema", "check", str(data / "schema.json"), str(data / "t.csv"))
    assert good.exit_code == 0 and "24 possible records" in good.stdout
    assert (
        json.loads(run("schema", "check", str(data / "schema.json"), "--json").stdout)[
            "domain_size"
        ]
        == "24"
    )
    (data / "bad.json").write_text('{"a": 3, "a": 4}')
    assert run("schema", "check", str(data / "bad.json")).exit_code == 2


def test_square_brackets_are_shown_as_they_are(data: Path) -> None:
    fields = [{"name": "a [kg]", "type": "integer", "constraints": {"minimum": 0, "maximum": 2}}]
    fields.append({"name": "[/b]", "type": "string", "constraints": {"enum": ["[unknown]", "x"]}})
    (data / "odd.json").write_text(json.dumps({"fields": fields}))
    (data / "odd.csv").write_text('"a [kg]",[/b]\n' + "1,x\n2,[unknown]\n" * 50)
    shown = run("schema", "check", str(data / "odd.json"), str(data / "odd.csv"))
    assert shown.exit_code == 0 and "a [kg]" in shown.stdout and "[unknown]" in shown.stdout
    made = run(
        "release",
        str(data / "odd.csv"),
        "--schema",
        str(data / "odd.json"),
        "--epsilon",
        "1",
        "--out",
        str(data / "o[/x]"),
    )
    assert made.exit_code == 0, made.output


def test_a_refused_release_leaves_no_folder(data: Path) -> None:
    assert release(data, "--epsilon", "1", "--mechanism", "magic").exit_code == 2
    assert not (data / "out").exists()


def test_a_release_that_cannot_be_saved_exits_5(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("understudy.bundle.release.pq.write_table", full)
    result = release(data, "--epsilon", "1")
    assert result.exit_code == 5 and "No space left" in result.stderr and "spent" in result.stderr


def test_a_bound_is_never_rounded_down() -> None:
    for alpha in (0.072825, 0.220517, 3.1100001e-05, 0.9999, 0.0001, 1.0):
        assert Decimal(round_up(alpha)) >= Decimal(alpha)
        assert float(round_up(alpha)) <= alpha * 1.01 + 1e-12


def test_the_demo_runs(tmp_path: Path) -> None:
    result = run("demo", "--out", str(tmp_path / "d"), "--mechanism", "independent", "--json")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "d/release/report.html").stat().st_size > 20_000


BAD_CELLS = [
    "",
    "nan",
    "-1",
    "99999999999999999999",
    "1e400",
    SECRET,
    '"',
    "\x00",
    "é",
    "2020-13-45",
    "=cmd()",
    "a,b",
]


@pytest.mark.parametrize("cell", BAD_CELLS)
def test_one_bad_cell_changes_nothing_that_can_be_seen(data: Path, cell: str) -> None:
    """Neighbour silence: same exit code, same messages, same output schema with and without a bad
    cell.
    """
    good = pd.DataFrame(small_table(), columns=list("abc"))
    bad = good.astype(object)
    bad.iloc[3, 1] = cell
    seen = []
    for name, frame in (("good", good), ("bad", bad)):
        (data / name).mkdir()
        frame.to_csv(data / name / "t.csv", index=False)
        words = [
            "release",
            str(data / name / "t.csv"),
            "--schema",
            str(data / "schema.json"),
            "--epsilon",
            "1",
            "--out",
            str(data / name / "o"),
        ]
        result = run(*words, "--rows", "50")
        assert SECRET not in result.output
        # what is said of released values follows from them alone
        made = us.Release.load(data / name / "o")
        said = [about_small(made.small_groups), *(f"- {remark}" for remark in made.remarks)]
        kept = [
            line
            for line in result.output.splitlines()
            if line not in said and not line.startswith("To look at")
        ]
        assert len(kept) + bool(made.small_groups) + len(made.remarks) + bool(made.remarks) == len(
            result.output.splitlines()
        )
        text = "".join(c for c in "\n".join(kept) if not c.isdigit()).replace(name, "X")
        lines = [
            line.split()
            for line in text.splitlines()
            if "━" not in line and "within" not in line and "alpha" not in line
        ]
        seen.append(
            (
                result.exit_code,
                [line[:1] for line in lines],
                (data / name / "o/schema.json").read_text(),
            )
        )
    assert seen[0] == seen[1]


def test_an_unexpected_failure_shows_no_traceback(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import understudy.cli.release as module

    def breaks(*args: object, **options: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(module, "make_release", breaks)
    result = release(data, "--epsilon", "1")
    assert (
        result.exit_code == 1 and SECRET not in result.output and "Traceback" not in result.output
    )


def test_interrupted_it_says_what_was_spent(data: Path) -> None:
    """A real process, a real signal."""
    pd.DataFrame(np.tile(small_table(), (3000, 1)), columns=list("abc")).to_parquet(
        data / "big.parquet"
    )
    words = [
        "release",
        str(data / "big.parquet"),
        "--schema",
        str(data / "schema.json"),
        "--epsilon",
        "1",
        "--out",
        str(data / "o"),
        "--mechanism",
        "mwem",
    ]
    code = "import sys; from understudy.cli.main import main; main(sys.argv[1:])"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--set", "rounds=500"],
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "300"},
        # deaf to it in a shell's background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    ledger = data / "big.parquet.ledger.jsonl"
    for _ in range(600):
        if ledger.exists() and ledger.stat().st_size:
            break
        time.sleep(0.05)
    time.sleep(0.5)  # the record is seen before the disk has confirmed it
    process.send_signal(2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and b"counts as spent" in errors
    assert (
        "ended early"
        in json.loads(run("budget", str(data / "big.parquet"), "--json").stdout)["notes"][0]
    )


def test_words_and_flags_can_be_set_and_wrong_ones_are_refused_in_a_sentence(
    tmp_path: Path,
) -> None:
    (tmp_path / "s.json").write_text('{"a": 4, "b": 3}')
    asked = ["plan", "--schema", str(tmp_path / "s.json"), "--rows", "5000", "--epsilon", "1"]
    for mechanism, setting in (
        ("matrix", "objective=total"),
        ("arp", "adaptive=false"),
        ("dualquery", "oracle=brute"),
        ("fem", "samples=10"),
    ):
        assert (
            CliRunner().invoke(main, [*asked, "--mechanism", mechanism, "--set", setting]).exit_code
            == 0
        )
    for mechanism, setting in (
        ("matrix", "objective=most"),
        ("arp", "adaptive=maybe"),
        ("dualquery", "oracle=foo"),
        ("fem", "samples=many"),
    ):
        refused = CliRunner().invoke(main, [*asked, "--mechanism", mechanism, "--set", setting])
        assert refused.exit_code == 2 and len(refused.output.splitlines()) <= 4
    twice = CliRunner().invoke(
        main, [*asked, "--mechanism", "fem", "--set", "rounds=5", "--set", "rounds=7"]
    )
    assert twice.exit_code == 2 and "once" in twice.output


DECIMALS = [
    (name, f.name)
    for name, kind in us.available_mechanisms().items()
    for f in dataclasses.fields(kind)
    if "float" in str(f.type) and "Fraction" not in str(f.type)
]


@pytest.mark.parametrize(("mechanism", "parameter"), DECIMALS)
def test_a_decimal_that_is_set_is_what_python_is_given(
    mechanism: str, parameter: str, tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text('{"a": 4, "b": 3}')
    asked: dict[str, Any] = {"rows": 5000, "epsilon": 40, "mechanism": mechanism}
    value = 99.5 if parameter == "sigma" else 0.75  # less noise would cost too much
    wanted = us.plan(tmp_path / "s.json", parameters={parameter: value}, **asked)
    words = [f"--{name}={text}" for name, text in asked.items()]
    shown = run(
        "plan", f"--schema={tmp_path / 's.json'}", *words, f"--set={parameter}={value}", "--json"
    )
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.output)["parameters"] == wanted.parameters


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe is another error on Windows")
def test_a_reader_that_goes_away_changes_no_exit_code(data: Path) -> None:
    made = [
        "release",
        str(data / "t.csv"),
        "--schema",
        str(data / "schema.json"),
        "--epsilon",
        "1",
        "--mechanism",
        "independent",
    ]
    checked = ["schema", "check", str(data / "schema.json")]
    assert unheard(*made, "--out", str(data / "out")) == (0, b"")
    # its progress has no reader either
    assert unheard(*made, "--out", str(data / "out2"), errors_too=True)[0] == 0
    for words in (
        ["verify", str(data / "out")],
        ["verify", str(data / "out2"), "--json"],
        checked,
        ["budget", str(data / "t.csv")],
    ):
        assert unheard(*words) == (0, b""), words
    (data / "out" / "manifest.json").write_bytes(b"{}")
    assert (
        unheard("verify", str(data / "out"))[0] == run("verify", str(data / "out")).exit_code != 0
    )
    assert unheard("schema", "check", str(data / "none.json"), "--json")[0] == 2


def unheard(*words: str, errors_too: bool = False) -> tuple[int, bytes]:
    """The exit code of a command whose output nobody reads, and what it says beside its progress."""
    code = "import sys; from understudy.cli.main import main; main(sys.argv[1:])"
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            stdout=write,
            stderr=write if errors_too else subprocess.PIPE,
            timeout=120,
            check=False,
        )
    finally:
        os.close(write)
    return done.returncode, b"".join(
        line for line in (done.stderr or b"").splitlines() if "…".encode() not in line
    )
