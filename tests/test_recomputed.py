"""What pages say follows from the raw samples, by a script that shares no code with the package."""

import pytest
import recomputed


def test_numbers_of_the_pages_follow_from_the_samples():
    found = recomputed.recomputed()
    assert len(found) >= 50
    for name, said, again in found:
        # A difference that is declared the other way round has the median time of its other side in it.
        turned = name == "ladder-wakers"
        assert again == pytest.approx(said, rel=1e-3 if turned else 1e-4), name
