"""The report, opened in a real browser."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pytest

import understudy as us
from understudy import demo
from understudy.privacy.certificate import round_up

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_the_report_shows_plots_budget_and_certificate(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    names = ["sex", "education", "employment", "income"]
    schema = us.Schema(tuple(demo.schema()[name] for name in names))
    made = us.release(demo.population(), schema=schema, epsilon=1, mechanism="mwem")
    folder = made.save(tmp_path / "release")
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: problems.append(request.url) if not request.url.startswith("file:") else None)
        page.goto((folder / "report.html").as_uri())
        assert page.locator("svg.one-way").count() == 4
        assert page.locator("svg.one-way rect").count() == sum(schema.shape)
        assert page.locator("svg.one-way circle").count() == sum(schema.shape)
        assert page.locator("svg.two-way").count() >= 2 and page.locator("svg.scatter circle").count() > 10
        box = page.locator("svg.one-way").first.bounding_box()
        assert box is not None and box["width"] > 150 and box["height"] > 80
        text = page.locator("body").inner_text()
        assert f"{round_up(Decimal(made.certificate.alpha) * 100)}%" in text and "95% confidence" in text
        assert "ε = 1" in text and "measuring with noise" in text and "the certificate" in text
        widths = page.locator(".bar span").evaluate_all("spans => spans.map(s => s.getBoundingClientRect().width)")
        assert len(widths) == 4 and sum(widths) > 800
        assert problems == []
        browser.close()


def test_a_wide_column_and_a_table_without_pairs(tmp_path: Path) -> None:
    import numpy as np

    schema = us.Schema.from_domain({"wide": 5000})
    made = us.release(np.zeros((50, 1), int), schema=schema, epsilon=1, mechanism="independent")
    page = (made.save(tmp_path / "r") / "report.html").read_text()
    assert page.count("<rect") <= 62 and "…" in page
