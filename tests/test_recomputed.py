"""What pages say follows from the raw samples, by a script that shares no code with the package."""

import pytest
import recomputed


def test_numbers_of_the_pages_follow_from_the_samples():
    found = recomputed.recomputed()
    assert len(found) >= 50
    for name, said, again in found:
        assert again == pytest.approx(said, rel=1e-4), name
