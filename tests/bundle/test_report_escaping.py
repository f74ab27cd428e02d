"""Strings of the user's in the report: shown as they are, and never anything but text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import jinja2
import numpy as np
import pytest

import understudy as us
from support.bundles import unsound
from understudy.bundle import report
from understudy.bundle.manifest import Manifest
from understudy.game.loop import Played
from understudy.game.players.measuring import one_way
from understudy.game.players.product import Product
from understudy.mechanisms.base import Brief, Decision, Means
from understudy.privacy import Measure, Meter
from understudy.runtime.watching import Watcher

TEMPLATE = Path(report.__file__).parent / "templates/report.html.j2"
NASTY = (
    "<script>alert(1)</script>",
    "</title><svg onload='alert(2)'>",
    '"\' onmouseover="alert(3)" x=\'',
    "a & b &lt;i&gt; &#60;b&#62;",
    "{{ 7 * 7 }}{% raw %}{# note #}",
    "javascript:alert(4)",
    "</style><img src=//elsewhere.example/x>",
    "<!-- --><![CDATA[ x ]]><?php ?>",
    "`;}expression(alert(5))/*",
    "hid\u202eden\u2066\u200f \x00\x1b[31m \r\n\tend\u2028\x85",
)
MAY_HOLD_TEXT = {"title", "aria-label"}


@dataclass(frozen=True, kw_only=True)
class Named(us.Mechanism):
    """Measures single columns and all pairs, and has something unpleasant wherever words of its own
    are shown.
    """

    name: ClassVar[str] = NASTY[0]
    summary: ClassVar[str] = NASTY[1]
    reference: ClassVar[str] = NASTY[2]
    rule: str = NASTY[4]

    def check(self, brief: Brief) -> None:
        """Anything."""

    def decide(self, brief: Brief, means: Means) -> Decision:
        return Decision.of(self, brief, means, how=NASTY[5], numbers={}, condition=NASTY[3])

    def play(
        self, decision: Decision, meter: Meter, rng: np.random.Generator, watcher: Watcher
    ) -> Played:
        brief = decision.brief
        ways = meter.ask(Measure(batches=one_way(brief.schema), rho=meter.left / 2))
        pairs = meter.ask(Measure(batches=list(brief.workload.marginals), rho=meter.left))
        data = Product(brief.schema, meter.rows)
        data.learn(ways)
        return Played(data.result(), (*ways, *pairs), facts={NASTY[6]: NASTY[7]})


def schema_of(words: tuple[str, ...]) -> us.Schema:
    """Columns and categories of every word: few and many values, so that every kind of label is
    drawn.
    """
    many = [f"{word}{i}" for i in range(4) for word in words]
    lists = [list(words), list(reversed(words)), many[:20], *[["yes", word] for word in words]]
    fields = [
        {
            "name": f"{i}{words[i % len(words)]}",
            "type": "string",
            "constraints": {"enum": e},
            "title": words[i % 9],
            "description": words[i % 7],
        }
        for i, e in enumerate(lists)
    ]
    block = {"columns": {fields[0]["name"]: {"missing": True, "other": True}}}
    return us.Schema.from_dict(
        {"title": words[0], "description": words[9], "fields": fields, "understudy": block}
    )


def innocent(text: str) -> str:
    """Letters and digits, as many, and others for another text."""
    return (hashlib.sha256(text.encode()).hexdigest() * (1 + len(text) // 64))[: len(text)]


def manifest_of(manifest: Any, change: Any, key: str = "") -> Any:
    """The manifest with every text in it changed, down to names of parameters; what is a number,
    a kind or a relation can be no other text, and stays.
    """
    if isinstance(manifest, dict):
        renamed = key in ("parameters", "played")
        return {
            change(k) if renamed else k: v if k == "budget" else manifest_of(v, change, k)
            for k, v in manifest.items()
        }
    if isinstance(manifest, list):
        return [manifest_of(entry, change, key) for entry in manifest]
    return (
        change(manifest)
        if isinstance(manifest, str)
        and key not in ("event", "sigma_squared", "sigma", "neighbours", "epsilon", "rho", "delta")
        else manifest
    )


class Skeleton(HTMLParser):
    """Everything of a page but its text: tags, attributes, comments, declarations."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.bones: list[tuple[Any, ...]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.bones.append(
            (tag, *((name, None if name in MAY_HOLD_TEXT else value) for name, value in attrs))
        )
        self.texts.extend(value or "" for name, value in attrs if name in MAY_HOLD_TEXT)

    def handle_endtag(self, tag: str) -> None:
        self.bones.append(("/" + tag,))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.bones.append(("comment", data))

    def handle_decl(self, decl: str) -> None:
        self.bones.append(("declaration", decl))

    def unknown_decl(self, data: str) -> None:
        self.bones.append(("declaration", data))

    def handle_pi(self, data: str) -> None:
        self.bones.append(("instruction", data))


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[us.Release, us.Release]:
    """A release full of markup, and the same release with harmless letters in place of all of it."""
    schema, plain = schema_of(NASTY), schema_of(tuple(map(innocent, NASTY)))
    rows = np.random.default_rng(0).integers(0, schema.shape, (300, len(schema)))
    table = schema.decode(rows, np.random.default_rng(0))
    book = (
        tmp_path_factory.mktemp("ledger")
        / "<img src=x onerror=alert(6)> & {{ 7 }}\u202e.ledger.jsonl"
    )
    work = us.explicit(schema, columns=[schema.names[:2], schema.names[1:3]])
    made = us.release(
        table, schema=schema, workload=work, epsilon=1, mechanism=Named(), ledger=book
    )
    steps = iter(range(10**6))
    changed = manifest_of(made.manifest, lambda text: f"{NASTY[next(steps) % len(NASTY)]} {text}")
    for event in changed["events"]:
        event["what"] = event["what"].replace(" ", "\u00a0")  # its first word names a step
    nasty = replace(made, facts=Manifest.from_dict(changed))
    asked = us.explicit(plain, columns=[plain.names[:2], plain.names[1:3]])
    same = replace(
        nasty,
        schema=plain,
        workload=asked,
        synthetic=plain.decode(made.codes, np.random.default_rng(0)),
    )
    return nasty, replace(same, facts=Manifest.from_dict(manifest_of(nasty.manifest, innocent)))


def test_no_text_of_the_users_becomes_markup(
    releases: tuple[us.Release, us.Release], battery: Callable[[str, int, str], None]
) -> None:
    nasty, harmless = (Skeleton(report.render_report(made)) for made in releases)
    assert len(nasty.bones) > 500 and nasty.bones == harmless.bones
    tags = {bone[0] for bone in nasty.bones}
    names = {
        attribute[0]
        for bone in nasty.bones
        for attribute in bone[1:]
        if isinstance(attribute, tuple)
    }
    assert not tags & {
        "script",
        "img",
        "iframe",
        "a",
        "form",
        "input",
        "base",
        "link",
        "object",
        "i",
        "comment",
        "instruction",
    }
    assert not names & {"href", "src", "action", "xlink:href"} and not any(
        name.startswith("on") for name in names
    )
    battery(
        "web page", len(NASTY), "texts with markup in every place of a report: none becomes markup"
    )


def test_every_text_is_shown_as_it_is(releases: tuple[us.Release, us.Release]) -> None:
    made = releases[0]
    shown = "\n".join(Skeleton(report.render_report(made)).texts)
    manifest = made.manifest
    told = [
        manifest["ledger"],
        manifest["made_by"],
        manifest["neighbours"],
        *(manifest["mechanism"][k] for k in ("name", "reference", "why")),
    ]
    told += [
        manifest["mechanism"]["conditional_on"],
        *manifest["mechanism"]["parameters"],
        *manifest["mechanism"]["played"],
    ]
    told += [
        manifest["workload"]["spec"] or "list",
        *made.schema.names[:3],
        *made.schema.columns[0].labels,
    ]
    told += [
        " ".join(text.split())
        for column in made.schema
        for text in (column.title, column.description)
    ]
    told += [made.schema.title, " ".join(made.schema.description.split())]
    for text in told:
        assert report._visible(text) in shown, text


def test_nothing_in_the_page_hides_or_reorders(releases: tuple[us.Release, us.Release]) -> None:
    page = report.render_report(releases[0])
    assert (
        not report.UNSEEN.search(page.replace("\n", ""))
        and "hid⟨U+202E⟩den⟨U+2066⟩⟨U+200F⟩ ⟨U+0000⟩⟨U+001B⟩[31m" in page
    )


def test_without_escaping_this_is_noticed(
    releases: tuple[us.Release, us.Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jinja2.Environment
    monkeypatch.setattr(
        jinja2, "Environment", lambda **options: real(**{**options, "autoescape": False})
    )
    page, harmless = (report.render_report(made) for made in releases)
    try:
        bones = Skeleton(page).bones
    except AssertionError:  # the parser itself gives up on such a page
        bones = []
    assert bones != Skeleton(harmless).bones


def test_the_template_has_no_way_around_escaping() -> None:
    text = TEMPLATE.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*safe\b|autoescape|Markup|\bsrcdoc\b|\bhref\b|\bsrc=", text)
    assert not re.search(r"\w=\{", text), "an attribute without quotes"
    assert "default-src 'none'" in text  # and if all else fails, a browser runs nothing


def test_a_ledger_whose_name_is_not_text_does_not_lose_a_release(tmp_path: Path) -> None:
    """The name comes from the file system and goes into the manifest, after the budget is spent."""
    book = tmp_path / "led\udcff.ledger.jsonl"
    made = us.release(
        np.zeros((50, 2), int),
        schema={"a": 2, "b": 2},
        workload="1-way",
        epsilon=1,
        mechanism="independent",
        ledger=book,
    )
    folder = made.save(tmp_path / "out")
    assert made.manifest["ledger"] == "led\\udcff.ledger.jsonl" and book.exists()
    assert unsound(folder) == []


def test_a_schema_that_cannot_be_written_is_refused_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    book = tmp_path / "t.ledger.jsonl"
    schema = us.Schema.from_domain({"a\ud800": 2, "b": 2})
    with pytest.raises(us.SchemaError, match="UTF-8"):
        us.release(np.zeros((50, 2), int), schema=schema, workload="1-way", epsilon=1, ledger=book)
    with pytest.raises(us.SchemaError, match="UTF-8"):
        us.learn(np.zeros((50, 2), int), schema=schema, label="b", epsilon=1, ledger=book)
    with pytest.raises(us.SchemaError, match="UTF-8"):
        us.Schema.from_dict(
            {"fields": [{"name": "a", "type": "string", "constraints": {"enum": ["x", "\udfff"]}}]}
        )
    assert not book.exists()
