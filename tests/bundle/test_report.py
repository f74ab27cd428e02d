"""The report, opened in a real browser."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pytest

import understudy as us
from understudy.api import demo
from understudy.privacy.certificate import round_up

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


@pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
)
def test_the_report_shows_plots_budget_and_certificate(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    names = ["sex", "education", "employment", "income"]
    schema = us.Schema(tuple(demo.schema()[name] for name in names))
    made = us.release(demo.population(), schema=schema, epsilon=1, mechanism="mwem")
    folder = made.save(tmp_path / "release")
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                problems.append(request.url) if not request.url.startswith("file:") else None
            ),
        )
        page.goto((folder / "report.html").as_uri())
        assert page.locator("svg.one-way").count() == 4
        assert page.locator("svg.inside").count() == 1  # of the incomes in each bin
        assert page.locator("svg.one-way rect").count() == sum(schema.shape)
        assert page.locator("svg.one-way circle").count() == sum(schema.shape)
        assert (
            page.locator("svg.two-way").count() >= 2
            and page.locator("svg.scatter circle").count() > 10
        )
        box = page.locator("svg.one-way").first.bounding_box()
        assert box is not None and box["width"] > 150 and box["height"] > 80
        text = page.locator("body").inner_text()
        assert (
            f"{round_up(Decimal(made.certificate.alpha) * 100)}%" in text
            and "95% confidence" in text
        )
        assert "ε = 1" in text and "measuring with noise" in text and "the certificate" in text
        widths = page.locator(".bar span").evaluate_all(
            "spans => spans.map(s => s.getBoundingClientRect().width)"
        )
        assert len(widths) == 4 and sum(widths) > 800
        page.set_viewport_size({"width": 390, "height": 800})  # a telephone: nothing sticks out
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert problems == []
        browser.close()


def test_a_wide_column_and_a_table_without_pairs(tmp_path: Path) -> None:
    import numpy as np

    schema = us.Schema.from_domain({"wide": 5000})
    made = us.release(np.zeros((50, 1), int), schema=schema, epsilon=1, mechanism="independent")
    page = (made.save(tmp_path / "r") / "report.html").read_text()
    assert page.count("<rect") <= 62 and "…" in page


@pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
)
def test_the_labels_of_heat_maps_lie_inside_them_and_say_when_in_short(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    schema = us.Schema(
        tuple(demo.schema()[name] for name in ("birth_date", "last_visit", "employment"))
    )
    made = us.release(
        demo.population(n=500),
        schema=schema,
        epsilon=1,
        mechanism="mwem",
        parameters={"rounds": 3},
    )
    folder = made.save(tmp_path / "release")
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto((folder / "report.html").as_uri())
        outside = page.locator("svg.two-way text").evaluate_all("""texts => texts.filter(text => {
                const inner = text.getBoundingClientRect(), outer = text.ownerSVGElement.getBoundingClientRect();
                return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
            }).map(text => text.textContent)""")
        said = (
            page.locator("svg.two-way text").all_text_contents()
            + page.locator("svg.one-way text").all_text_contents()
            + page.locator("svg.inside text").all_text_contents()
        )
        browser.close()
    assert outside == []
    assert {"1935 to 1946", "2023-07 to 2023-09"} <= set(said) and not any(
        "T" in text for text in said
    )


@pytest.mark.parametrize(
    ("kind", "bounds", "settings", "label"),
    [
        (
            "datetime",
            ("2020-01-01T00:00:00", "2020-12-31T23:59:59"),
            {"bins": 2},
            "2020-01-01 to 2020-07-01",
        ),
        (
            "datetime",
            ("2020-01-01T00:00:00", "2021-12-31T23:59:59"),
            {"resolution": "quarter"},
            "2020-01 to 2020-03",
        ),
        (
            "datetime",
            ("2020-01-01T00:00:00", "2020-01-01T23:59:59"),
            {"bins": 2},
            "2020-01-01T00:00:00 to 2020-01-01T11:59:59",
        ),
        ("date", ("2020-01-01", "2021-12-31"), {"bins": 1}, "2020 to 2021"),
        ("date", ("2020-01-15", "2021-12-31"), {"resolution": "month"}, "2020-01"),
        (
            "date",
            ("2020-01-15", "2021-12-31"),
            {"resolution": "quarter"},
            "2020-01-15 to 2020-03-31",
        ),
    ],
)
def test_a_bin_of_whole_days_or_months_is_called_by_these(
    kind: str, bounds: tuple[str, str], settings: dict[str, object], label: str
) -> None:
    from understudy.bundle.report import _label

    field = {
        "name": "when",
        "type": kind,
        "constraints": {"minimum": bounds[0], "maximum": bounds[1]},
    }
    column = us.Schema.from_dict(
        {"fields": [field], "understudy": {"columns": {"when": settings}}}
    ).columns[0]
    assert _label(column, 0) == label
