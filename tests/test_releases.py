"""The release that changed something is named, and none where nothing changed; `make sweep` measures each installed
release once.
"""

import argparse
from pathlib import Path

import numpy as np
import pytest
from made_up_machines import EPISODES, many_of

from async_cost.machines import releases
from async_cost.workflow import commands, plan
from async_cost.workflow.steps import StepFailed

NUMBERS = ["1.80.0", "1.82.0", "1.85.0", "1.90.0", "1.95.0"]
NAMES = [f"rustc {number} (0123 2026-01-01)" for number in NUMBERS]
ERROR = 0.005


def noise(rng: np.random.Generator, findings: int) -> np.ndarray:
    return rng.normal(0, ERROR, (findings, 1, len(NAMES)))


def test_each_step_is_dated_and_sized():
    logs = noise(np.random.default_rng(3), 20)
    logs[4, :, 3:] += np.log(1.2)  # from 1.90 on
    logs[9, :, 1:] += np.log(0.8)
    logs[9, :, 4:] += np.log(1.5)
    found = releases.steps(many_of(logs, ERROR, NAMES)).sort("variant", "release")
    assert found.select("variant", "before", "release", "verdict").rows() == [
        ("v-00004", "1.85.0", "1.90.0", "slower"),
        ("v-00009", "1.80.0", "1.82.0", "faster"),
        ("v-00009", "1.90.0", "1.95.0", "slower"),
    ]
    for row, truth in zip(found.to_dicts(), (1.2, 0.8, 1.5), strict=True):
        assert row["low"] < truth < row["high"]


def estimated(
    rng: np.random.Generator, findings: int, between: float = 0.0, error: float | list[float] = ERROR
) -> tuple[np.ndarray, np.ndarray]:
    """Runs without a step, each with its own mean over processes and a standard error that is estimated from these."""
    shape, each = (findings, 1, len(NAMES)), np.broadcast_to(error, len(NAMES))[:, None]
    episodes = rng.normal(0, each * np.sqrt(EPISODES), (*shape, EPISODES)) + rng.normal(0, between, shape)[..., None]
    return episodes.mean(-1), episodes.std(-1, ddof=1) / np.sqrt(EPISODES)


def test_noise_seldom_makes_a_step():
    rng = np.random.default_rng(4)
    named = [releases.steps(many_of(*estimated(rng, 100), NAMES)).height > 0 for _ in range(60)]
    assert np.mean(named) <= 0.1


@pytest.mark.parametrize("noisy", [1, 2, 3])
def test_noise_seldom_makes_a_step_where_it_is_beyond_what_counts_and_one_run_has_more(noisy):
    rng, error = np.random.default_rng(8), [0.05, 0.05, 0.05 * noisy, 0.05, 0.05]
    named = [releases.steps(many_of(*estimated(rng, 100, error=error), NAMES)).height > 0 for _ in range(60)]
    assert np.mean(named) <= 0.1


def test_what_runs_of_one_release_differ_by_is_no_step():
    rng, again = np.random.default_rng(6), [name for name in NAMES for _ in range(2)]
    alarms = []
    for _ in range(20):
        (first, error), (second, other) = (estimated(rng, 50, between=5 * ERROR) for _ in range(2))
        both = [np.stack(pair, axis=-1).reshape(50, 1, -1) for pair in ((first, second), (error, other))]
        alarms.append(releases.steps(many_of(*both, again)).height)
    assert np.mean(alarms) < 1, "each release was measured twice, which shows how far two runs differ"


def test_a_step_that_does_not_count_is_not_named():
    logs = noise(np.random.default_rng(5), 5) / 100
    logs[:, :, 2:] += np.log(1.005)
    assert releases.steps(many_of(logs, ERROR / 100, NAMES)).is_empty()


def test_releases_are_in_the_order_of_their_numbers_and_builds_are_told_apart():
    names = [
        "rustc 1.100.0 (0123 2027-06-01)",
        "rustc 1.95.0 (0123 2026-01-01)",
        "rustc 1.101.0-nightly (fff0 2027-05-01)",
        "rustc 1.95.0 (0123 2026-01-01)",
        "rustc 1.101.0-nightly (0123 2027-07-01)",
        "rustc 1.101.0 (0456 2027-08-01)",
    ]
    found = releases.series(many_of(np.zeros((1, 1, 6)), ERROR, names))
    assert found.rows() == [
        ("m-000", "1.95.0", "m-000/003"),  # the newer of two
        ("m-000", "1.100.0", "m-000/000"),
        ("m-000", "1.101.0-nightly of 2027-05-01", "m-000/002"),
        ("m-000", "1.101.0-nightly of 2027-07-01", "m-000/004"),
        ("m-000", "1.101.0", "m-000/005"),
    ]
    assert releases.series(many_of(np.zeros((1, 2, 1)), ERROR, names[:1])).is_empty(), "one release each"


class Delivered:
    """A plan of which nothing but its run is there."""

    def __init__(self, goal: str, profile: str, studies: object, native: bool) -> None:
        self.folder = plan.RUNS / "m" / commands.os.environ["RUSTUP_TOOLCHAIN"]

    def steps(self) -> list:
        return []

    def run(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder

    def close(self) -> None:
        pass


def test_a_sweep_says_what_is_not_installed_and_goes_on_after_a_kill(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RUSTUP_TOOLCHAIN", "")
    for module in (plan, commands):
        monkeypatch.setattr(module, "RUNS", tmp_path)
    (tmp_path / ".partial").mkdir()
    monkeypatch.setattr(commands, "Plan", Delivered)
    monkeypatch.setattr(
        commands.toolchain, "installed", lambda release: "" if release == "1.2.3" else f"rustc {release} (1234)"
    )
    titles, killed = [], []

    def run_steps(title: str, *rest: object) -> None:
        titles.append(title)
        if title in killed:
            raise KeyboardInterrupt

    monkeypatch.setattr(commands, "run_steps", run_steps)
    sweep = commands.sweep.__wrapped__
    with pytest.raises(StepFailed, match=r"no toolchain 1\.2\.3 here. To install: rustup toolchain install"):
        sweep(argparse.Namespace(profile="quick", studies=None, releases="1.95.0 1.2.3"))
    with pytest.raises(StepFailed, match=r"the crates need a newer Rust than 1\.80\.0: "):
        sweep(argparse.Namespace(profile="quick", studies=None, releases="1.95.0 1.80.0"))
    assert not titles, "nothing is measured before all are there"

    asked = argparse.Namespace(profile="quick", studies=None, releases="1.95.0 1.99.0 1.95.0")
    killed.append("make sweep, 1.99.0")
    with pytest.raises(KeyboardInterrupt):
        sweep(asked)
    killed.clear()
    assert sweep(asked) == 0
    assert titles == ["make sweep, 1.95.0", "make sweep, 1.99.0", "make sweep, 1.99.0", "make sweep"]
    assert "1.95.0: measured before, m/1.95.0" in capsys.readouterr().out
    assert not plan.Sweep("quick", None).runs, "the next sweep measures all of them"


def test_what_rustup_does_not_have_is_not_there():
    assert not commands.toolchain.installed("0.0.0")
    assert commands.toolchain.installed("1.95.0"), "the one of rust-toolchain.toml"
