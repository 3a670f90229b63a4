"""What is said of a run that cannot be read."""

from pathlib import Path

import pytest

from async_cost.errors import DataError
from async_cost.runs.find import load_run


def refused(run: Path) -> DataError:
    """The error for a damaged run, which says what to do and is safe on a terminal."""
    with pytest.raises(DataError) as caught:
        load_run(run)
    message = str(caught.value)
    assert message.isprintable() and caught.value.remedy and caught.value.remedy in message
    return caught.value
