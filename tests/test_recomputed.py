"""What pages say follows from the raw samples, by a script that shares no code with the package."""

import pytest
import recomputed


def test_numbers_of_the_pages_follow_from_the_samples():
    found = recomputed.recomputed()
    assert len(found) >= 50
    for name, said, again in found:
        # A difference of nearly equal times, declared the other way round, has the median of another side in it.
        assert again == pytest.approx(said, rel=1e-3), name
