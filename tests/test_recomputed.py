"""What pages say follows from the raw samples, by a script that shares no code with the package."""

import csv

import pytest
import recomputed

#: Findings that say differences.
DIFFERENCES = {
    row["id"]
    for row in csv.DictReader((recomputed.DATA / "findings.csv").read_text(encoding="utf-8").splitlines())
    if row["operation"] == "difference"
}


def test_numbers_of_the_pages_follow_from_the_samples():
    found = recomputed.recomputed()
    assert len(found) >= 150
    for name, said, again in found:
        # A difference that is declared the other way round has the median time of its other side in it.
        close = 1e-2 if name.partition(" ")[0] in DIFFERENCES else 1e-4
        assert again == pytest.approx(said, rel=close), name
