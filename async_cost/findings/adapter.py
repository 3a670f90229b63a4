"""A finding as it was written before slots: a sentence, one quantity with a word of the vocabulary, and further numbers
to show behind it.
"""

from collections.abc import Iterable

from async_cost.findings.finding import slot
from async_cost.findings.operands import Quantity
from async_cost.findings.record import SHOWN, Finding
from async_cost.findings.vocabulary import Word


def before_slots(
    page: str,
    id: str,
    sentence: str,
    of: Quantity,
    word: Word,
    *,
    show: Iterable[Quantity] = (),
    because: str = "",
    processors: int = 1,
) -> Finding:
    """The finding that `word` is true `of` a quantity. Raises ValueError for a sentence without an end, and for a word
    that does not fit the quantity.
    """
    name = f"{page}-{id}"
    if not isinstance(of, Quantity):
        raise ValueError(f"finding {name}: say of which number of the {type(of).__name__}: pass its .ratio or .added")
    if not isinstance(word, Word):
        raise ValueError(f"finding {name}: {word!r} is no word of the vocabulary, such as ac.slower or ac.under(2)")
    if not sentence.endswith((".", "!", "?")):
        raise ValueError(f"finding {name}: {sentence!r} is no sentence; end it with a full stop")
    if any(len(one.cases) != 1 for one in show):
        raise ValueError(f"finding {name}: a further number is one number; show the pairs one by one")
    further = [slot(name, f"show{at}", one, Word(SHOWN), sentence) for at, one in enumerate(show, 1)]
    judged = slot(name, "", of, word, sentence, processors)
    return Finding(id=name, page=page, sentence=sentence, label="", slots=(judged, *further), so=because)
