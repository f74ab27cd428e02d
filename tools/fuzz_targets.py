"""What is fuzzed: every place that reads what somebody else may have written, called with any
bytes.

A target may refuse with one of the package's own errors and a sentence. Anything else that it
raises is a finding. Where a checksum guards a file, the checksum is made to fit: whoever writes a
false file can do the same, and what lies behind it is what is tried.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import shutil
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import understudy as us
from understudy.bundle.attached_audit import ATTACHMENT, attach, check_attachment, statement
from understudy.bundle.attached_audit import _seal as seal
from understudy.bundle.export import export_csv
from understudy.bundle.manifest import read_manifest
from understudy.bundle.model import MODEL_FILE
from understudy.cli.main import main as cli
from understudy.game.fitting.mixture import Mixture
from understudy.privacy import FileLedger
from understudy.privacy.accounting import events as ev
from understudy.privacy.ledger.chain import FIRST_HASH
from understudy.privacy.ledger.chain import hash_of as chain_hash
from understudy.queries.attribute import Attribute
from understudy.queries.base import Neighbours
from understudy.queries.condition import Condition
from understudy.queries.relaxed import Chances
from understudy.rules.classes import rule_classes
from understudy.schema.files import write_mapping
from understudy.sources.delimited import DelimitedSource, cut

# a column of every kind, with all that a column can be given
SCHEMA = us.Schema.from_dict(
    {
        "fields": [
            {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
            {"name": "sex", "type": "string", "constraints": {"enum": ["F", "it's"]}},
            {
                "name": "seen",
                "type": "date",
                "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"},
            },
            {"name": "paid", "type": "number", "constraints": {"minimum": 0, "maximum": 1}},
            {"name": "married", "type": "boolean"},
        ],
        "missingValues": ["", "?"],
        "understudy": {
            "columns": {
                "age": {"bins": 4},
                "sex": {"missing": True, "other": True},
                "seen": {"resolution": "quarter"},
            }
        },
    }
)
RULES = us.Schema.from_domain({"a": 2, "b": 3, "y": 2})  # a table that rules can be learnt from
BUNDLE = "bundle"  # a folder below the one that is prepared
LONGEST_QUOTED = 200_000  # a refusal may quote a name that is long
FINDINGS = "findings.jsonl"  # what a child writes and its parent reads
# the files of a bundle that arrow reads
PARQUET = ("codes.parquet", "synthetic.parquet", "measurements.parquet", "answers.parquet")


@dataclass(frozen=True)
class Target:
    """A place that reads bytes.

    Attributes:
        run: reads some, with a folder to write to that :func:`prepare` has filled.
        seeds: valid inputs to start from.
        words: what to put into inputs.
        tree: whether inputs are JSON, of which pieces are better exchanged than bytes.
    """

    run: Callable[[bytes, Path], object]
    seeds: Callable[[Path], Sequence[bytes]]
    words: Sequence[str] = ()
    tree: bool = False


def complaint(call: Callable[[], object]) -> str:
    """What is wrong with how a call ended; empty when it returned, or refused in a sentence. The
    same fault gives the same words.
    """
    try:
        call()
    except us.UnderstudyError as problem:
        fits = is_a_sentence(str(problem), most=LONGEST_QUOTED)
        return (
            ""
            if fits
            else f"a refusal that is no sentence: {type(problem).__name__} at {_raised_at(problem)}"
        )
    except Exception as problem:
        return f"not one of our errors: {type(problem).__name__} at {_raised_at(problem)}"
    return ""


def is_a_sentence(text: str, most: int = 1000) -> bool:
    return text.endswith(".") and "\n" not in text and 15 < len(text) < most


def _raised_at(problem: Exception) -> str:
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if "understudy" in Path(frame.filename).parts] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"


# ---------------------------------------------------------------------- inputs that are valid


def prepare(folder: Path) -> None:
    """A release with a model and an audit, and a rule: what targets put false pieces into."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, size, 60) for size in RULES.shape])
    release = us.release(
        rows,
        schema=RULES,
        epsilon=1,
        delta="1e-6",
        workload="2-way",
        mechanism="independent",
        rows=9,
        seed=0,
    )
    values = np.concatenate([np.full((size, 2), 1 / size, np.float32) for size in RULES.shape])
    model = Mixture(
        RULES, Chances(values, np.concatenate([[0], np.cumsum(RULES.shape)]).astype(np.int64))
    )
    place = replace(release, model=model).save(folder / BUNDLE)
    row = {"held": True, "found": 0.5, "claimed": 1.0, "runs": 3}
    attach(place, statement([row], quick=True, mechanism=None))
    for name in rule_classes():
        us.learn(rows, schema=RULES, label="y", epsilon=1, rules=name, width=1).save(
            folder / f"{name}.json"
        )


def text(*inputs: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda folder: [one.encode() for one in inputs]


def of_file(name: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda folder: [(folder / name).read_bytes()]


def schema_texts(ending: str) -> Callable[[Path], Sequence[bytes]]:
    def texts(folder: Path) -> Sequence[bytes]:
        kinds = [
            SCHEMA.to_dict(),
            {"a": 2, "b": 3},
            {"items": ["x", "y"], "row": "who"},
            {"items": 4, "density": 0.5},
        ]
        return [_written(folder / f"seed{ending}", kind) for kind in kinds]

    return texts


def _written(file: Path, data: dict[str, Any]) -> bytes:
    write_mapping(file, data)
    return file.read_bytes()


def stored_workloads(folder: Path) -> Sequence[bytes]:
    asked = [
        us.Workload.parse(spec, RULES)
        for spec in ("2-way", "2-conjunctions:3@1", "all-conjunctions")
    ]
    asked.append(us.explicit(RULES, queries=[us.any_of(us.Literal(0, 1), us.Literal(1, 0))]))
    return [json.dumps(work.to_dict()).encode() for work in asked]


def ledger_records() -> list[dict[str, Any]]:
    # No curve among them: its epsilon takes seconds, which under the fuzzer looks like a hang.
    one, counted = Fraction(1), {"neighbours": str(Neighbours.REPLACE_ONE)}
    events = [
        ev.Reservation(what="x", rho=one), ev.DiscreteGaussian(what="x", sigma_squared=one, l2_squared=2),
        ev.JointGaussian(what="x", sigmas_squared=(one, one), l2_in_sigmas=one), ev.DiscreteLaplace(what="x", scale=one, l1=1),
        ev.ExponentialDraws(what="x", log_weight_shift=one, draws=1), ev.PerturbedArgmin(what="x", shift=1, slots=1, scale=one),
        ev.PureDP(what="x", epsilon=one), ev.ApproximateDP(what="x", epsilon=one, delta=one / 10**9),
    ]  # fmt: skip
    charges = [
        {"kind": "charge", "body": {"label": "x", **counted, "events": [ev.to_dict(event)]}}
        for event in events
    ]
    limits = [
        {"kind": "limit", "body": {"epsilon": "900", "delta": "1/1000", "rho": "800"}},
        {"kind": "limit", "body": {"rho": "900"}},
    ]
    limits[1]["body"]["files"] = [{"device": 1, "inode": 2, "path": "people.csv"}]
    notes = [
        {"kind": "note", "body": {"text": "made", "charge": 1}},
        {"kind": "torn", "body": {"bytes": "00"}},
    ]
    return [*charges, *limits, *notes]


def chained(records: Sequence[Mapping[str, Any]]) -> bytes:
    """Lines of a ledger whose hashes hold."""
    lines, before = [], FIRST_HASH
    for seq, fields in enumerate(records):
        record = {"seq": seq, "format": 1, "time": 0.5, **fields, "prev": before}
        record["hash"] = before = chain_hash(record)
        lines.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    return b"".join(lines)


# ---------------------------------------------------------------------- what reads them


def command(name: str, **options: Any) -> None:
    """A command without the fence that turns what nobody foresaw into a sentence."""
    cli.commands[name].callback.__wrapped__(**options)


def read_condition(data: bytes, folder: Path) -> None:
    condition = Condition.parse(data.decode("utf-8", "surrogateescape"), SCHEMA)
    condition.holds(np.zeros((1, len(SCHEMA)), np.int32))
    condition.words.encode("utf-8", "surrogateescape")


def read_question(data: bytes, folder: Path) -> None:
    Attribute.parse(data.decode("utf-8", "surrogateescape"), SCHEMA).bits(np.zeros(1, np.int32))


def read_schema(ending: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        file = folder / f"schema{ending}"
        file.write_bytes(data)
        schema = us.Schema.load(file)
        assert (
            us.Schema.from_dict(schema.to_dict()) == schema and schema.digest and schema.domain_text
        )
        for column in list(schema)[:20]:
            column.label(column.size - 1).encode()

    return read


def read_workload(ending: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        file = folder / f"workload{ending}"
        file.write_bytes(data)
        _use_workload(us.Workload.load(file, SCHEMA), SCHEMA)

    return read


def read_workload_text(data: bytes, folder: Path) -> None:
    _use_workload(us.Workload.parse(data.decode("utf-8", "surrogateescape"), SCHEMA), SCHEMA)


def _use_workload(work: us.Workload, schema: us.Schema) -> None:
    if work.size < 10_000:
        assert us.Workload.from_dict(json.loads(json.dumps(work.to_dict())), schema) == work
        work.batches[0].describe(schema, 0)


# asked of the command budget
NOTHING = {**dict.fromkeys(("limit_epsilon", "limit_delta", "add_rho", "why")), "new_table": False}


def read_numbers(data: bytes, folder: Path) -> None:
    epsilon, delta, rho, first, *_ = [
        *data.decode("utf-8", "surrogateescape").split("\n"),
        "",
        "",
        "",
    ]
    ledger = folder / "numbers.jsonl"
    ledger.unlink(missing_ok=True)
    asked = {
        "rows": 1000,
        "delta": delta or None,
        "workload": "1-way",
        "mechanism": "mwem",
        "neighbours": "replace-one",
    }
    limit = {**NOTHING, "limit_epsilon": epsilon, "limit_delta": delta}
    added = {**NOTHING, "add_rho": rho, "why": "x"}
    calls = (
        lambda: command(
            "plan",
            as_json=True,
            parameters=(f"first={first}",),
            schema={"a": 2, "b": 2},
            epsilon=epsilon,
            **asked,
        ),
        lambda: command(
            "budget", accountant="rho", delta=None, path=str(ledger), **limit, as_json=False
        ),
        lambda: command(
            "budget", accountant="rho", delta=None, path=str(ledger), **added, as_json=True
        ),
    )
    for call in calls:
        with contextlib.suppress(us.InputError, us.BudgetRefused):
            call()


def read_ledger(data: bytes, folder: Path) -> None:
    file = folder / "ledger.jsonl"
    file.write_bytes(data)
    command("budget", accountant="rho", delta=None, path=str(file), **NOTHING, as_json=True)
    command("budget", accountant="rho", delta=None, path=str(file), **NOTHING, as_json=False)
    with contextlib.suppress(us.BudgetRefused):
        FileLedger(file).reserve(
            "x", (ev.Reservation(what="x", rho=Fraction(1)),), Neighbours.REPLACE_ONE
        )


def read_ledger_records(data: bytes, folder: Path) -> None:
    records = _json(data)
    if isinstance(records, list) and all(isinstance(record, dict) for record in records):
        read_ledger(chained(records), folder)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def read_bundle(name: str) -> Callable[[bytes, Path], None]:
    """Puts the bytes into a release in the place of one of its files, which its manifest then
    lists, and uses the release.
    """

    def read(data: bytes, folder: Path) -> None:
        _use_bundle(changed_bundle(name, data, folder), folder)

    return read


def changed_bundle(name: str, data: bytes, folder: Path) -> Path:
    # each target its own: what one left would be another's damage
    place = folder / f"changed-{name}"
    if not place.exists():
        shutil.copytree(folder / BUNDLE, place)
    (place / name).write_bytes(data)
    if name not in ("manifest.json", ATTACHMENT):
        manifest = json.loads((folder / BUNDLE / "manifest.json").read_bytes())
        manifest["files"][name] = hashlib.sha256(data).hexdigest()
        (place / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return place


def _use_bundle(place: Path, folder: Path) -> None:
    file = folder / "rows.csv"
    file.unlink(missing_ok=True)
    release = us.Release.load(place)
    str(release.certificate)
    repr(release)
    release.answers().occupied()
    sample = release.sample(3, seed=0)
    release.alpha_of(sample)
    release.sample_where("a = 1", 2, seed=0)
    export_csv(place, file)


def read_parquet(data: bytes, folder: Path) -> None:
    """The first byte says which of the files of a release it is."""
    if data:
        name = PARQUET[data[0] % len(PARQUET)]
        _use_bundle(changed_bundle(name, data[1:], folder), folder)


def verify_manifest(data: bytes, folder: Path) -> None:
    assert us.verify(changed_bundle("manifest.json", data, folder)), (
        "a verification that checks nothing"
    )


def read_attachment(data: bytes, folder: Path) -> tuple[bool, str]:
    place, document = folder / BUNDLE, _json(data)
    if isinstance(document, dict):
        document["sha256"] = seal(
            {name: value for name, value in document.items() if name != "sha256"}
        )
        data = json.dumps(document).encode()
    place = changed_bundle(ATTACHMENT, data, folder)
    return check_attachment(place, read_manifest(place))


def read_csv(data: bytes, folder: Path) -> None:
    for ending in (".csv", ".csv.gz"):
        (folder / f"table{ending}").write_bytes(data)
        with contextlib.suppress(us.SourceError):
            for _ in DelimitedSource(folder / f"table{ending}", RULES)._blocks((0, 1, 2)):
                pass
    # However a file falls into chunks, it holds the same rows.
    whole, pieces = (
        [
            cell.as_py()
            for arrays in cut(io.BytesIO(data), [1, 0], size)
            for cell in arrays[0].cast(pa.large_binary())
        ]
        for size in (1 << 20, 3)
    )
    assert whole == pieces


def read_rule(data: bytes, folder: Path) -> None:
    """With its words made to fit, where that can be done: they are the checksum of a rule."""
    file, document = folder / "read.json", _json(data)
    file.write_bytes(data)
    if isinstance(document, dict):
        with contextlib.suppress(Exception):
            file.write_text(
                json.dumps({**document, "words": us.Learned._read_parts(document).words}),
                encoding="utf-8",
            )
    rule = us.Learned.load(file)
    rule.words.encode()
    names = rule.schema.names
    rule.predict({name: ["0", None, 1, "x"] for name in names})


def seeds_of_rules(folder: Path) -> Sequence[bytes]:
    return [(folder / f"{name}.json").read_bytes() for name in rule_classes()]


YAML_WORDS = (
    "fields:", "type: ", "name: ", "constraints:", "enum: [", "minimum: ", "maximum: ", "bins: ", "cuts: [", "understudy:", "missing: ",
    "resolution: ", "items: ", "density: ", "&a ", "*a", "!!", "<<: ", "? ", "- ", ".inf", ".nan", "1e400", "0x", "2020-01-01", "true", "~",
    "010", "12:30", "1_000", "1e3", "yes", "title: ", "description: ", "missingValues: [", "\x85", "\u2028",
)  # fmt: skip
# every reader of what others may have written, with seeds that it takes
TARGETS: dict[str, Target] = {
    "condition": Target(
        read_condition,
        text(
            "age < 25 and (sex = 'F' or not married)",
            "sex in ('F', \"it's\")",
            "`seen` >= 2020-04-01 or paid >= 0.5 and sex <> 'F'",
            "not (age <= 24)",
        ),
        (
            "and",
            "or",
            "not",
            "in (",
            ")",
            "''",
            "age",
            "sex",
            "married",
            "seen",
            "paid",
            "MISSING",
            "OTHER",
            "<>",
            "==",
            "!=",
            "1e400",
        ),
    ),
    "question": Target(
        read_question,
        text("married", "sex = F", "age >= 50", "seen < 2020-04-01"),
        ("age", "sex", ">=", "!=", "1e400"),
    ),
    "schema.yaml": Target(read_schema(".yaml"), schema_texts(".yaml"), YAML_WORDS),
    "schema.json": Target(read_schema(".json"), schema_texts(".json"), tree=True),
    "workload.yaml": Target(
        read_workload(".yaml"),
        text(
            "marginals: [1-way, 2-way:3@7, [age, sex]]",
            "queries:\n- {all_of: {sex: F, married: true}}\n- {not: {any_of: [{age: 30}]}}",
            "queries: [{at_least: {sex: F, age: 30, married: {not: true}}, t: 2}, {parity: {sex:"
            " F}}]",
            "marginals: [all-conjunctions]",
        ),
        (
            "marginals: [",
            "queries:",
            "all_of",
            "any_of",
            "at_least",
            "parity",
            "not: ",
            "t: ",
            "3-way",
            ":9@9",
            "conjunctions",
            "&a ",
            "*a",
        ),
    ),
    "workload.json": Target(
        read_workload(".json"),
        text(
            '{"marginals": ["1-way", ["age", "sex"], "3-conjunctions:9@1"]}',
            '{"queries": [{"at_least": {"sex": "F", "age": 30, "married": {"not": true}}, "t": 2},'
            ' {"not": {"any_of": [{"age": 30}]}}]}',
        ),
        tree=True,
    ),
    "workload text": Target(
        read_workload_text,
        text("3-way", "2-way:3@7+1-way", "3-conjunctions:100@7"),
        ("-way", "+", "@", ":", "all-conjunctions"),
    ),
    "numbers": Target(
        read_numbers,
        text("1\n1e-6\n0.5\n1/10", "0.5\n1/1000\n1/3\n0.2"),
        ("1e", "-", "/", ".", "nan", "inf", "_", "\u0663", "1e-9", "e999"),
    ),
    "ledger": Target(
        read_ledger,
        lambda folder: [chained(ledger_records())[:-1], chained(ledger_records()[:1]), b""],
        ('{"seq":0,',),
    ),
    "ledger records": Target(
        read_ledger_records,
        lambda folder: [json.dumps([one]).encode() for one in ledger_records()],
        tree=True,
    ),
    "manifest": Target(read_bundle("manifest.json"), of_file(f"{BUNDLE}/manifest.json"), tree=True),
    "manifest, verified": Target(verify_manifest, of_file(f"{BUNDLE}/manifest.json"), tree=True),
    "workload of a bundle": Target(read_bundle("workload.json"), stored_workloads, tree=True),
    "model": Target(read_bundle(MODEL_FILE), of_file(f"{BUNDLE}/{MODEL_FILE}")),
    "rows of a bundle": Target(
        read_parquet,
        lambda folder: [
            bytes([i]) + (folder / BUNDLE / name).read_bytes() for i, name in enumerate(PARQUET)
        ],
    ),
    "attached audit": Target(read_attachment, of_file(f"{BUNDLE}/{ATTACHMENT}"), tree=True),
    "csv": Target(
        read_csv,
        lambda folder: [
            b"a,b,y\n0,1,1\n1,,0\n",
            b'\xef\xbb\xbfb,"a",y\r\n"1","0""",x\r\n\r\n1',
            gzip.compress(b"a,b,y\n0,1,1\n", mtime=0),
        ],
        ('"', '""', ",", "\r\n", "\n\n"),
    ),
    "rule": Target(read_rule, seeds_of_rules, tree=True),
}
