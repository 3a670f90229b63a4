"""A thousand damaged and hostile runs on the page that reads them all: named as text, and nothing of theirs runs."""

import pytest
from browsing import DESKTOP
from hostile_runs import MARKUP, hostile_copies

from async_cost.report.notebook import page_of
from async_cost.report.publish import publish_alone
from async_cost.testing.made_up_runs import make_run
from async_cost.workflow.publishing import execute

HOSTILE = 1000


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The published page, and the runs that were damaged."""
    root = tmp_path_factory.mktemp("hostile")
    honest = make_run(root / "runs", machine="alpha", rounds=8, samples=2)
    kinds = hostile_copies(honest, HOSTILE, seed=7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASYNC_COST_RUNS", str(root / "runs"))
        patch.setenv("ASYNC_COST_RUN", str(honest))
        patch.delenv("ASYNC_COST_COMPARE", raising=False)
        (found,) = execute(["hardware"], root, {}, page_of)
    (path,) = publish_alone(honest, found, root / "report", pdf=False)
    return path, kinds


def test_no_markup_of_a_stranger_runs(page, opened):
    path, _ = page
    visit = opened(path, viewport=DESKTOP, bypass_csp=True)  # the words are harmless even without the second lock
    visit.wait_until_drawn()
    visit.page.mouse.wheel(0, 100_000)
    assert visit.page.evaluate("window.hacked") is None and visit.complaints == []
    assert visit.page.locator("main iframe, main b[onmouseover], main svg[onload], main img[onerror]").count() == 0


def test_every_stranger_is_named_with_a_reason(page, opened):
    path, kinds = page
    visit = opened(path, viewport=DESKTOP, java_script_enabled=False)
    aside = visit.page.locator("details.fold", has_text="Folders that cannot be used")
    aside.locator("summary").click()
    rows = [row.split("\t", 1) for row in aside.locator("tbody tr").all_inner_texts()]
    reasons = {run.strip(): reason for run, reason in rows}
    for run in kinds:
        assert len(reasons[run].split()) > 5
    assert any(MARKUP[0][:30] in reason for reason in reasons.values()), "markup is shown as the text that it is"
