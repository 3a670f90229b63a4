"""async-cost: from the raw samples of a run to sentences with error bars.

Read in this order: `load` (a run, or an error that says what to repair), `estimate` (ratios within a round, intervals),
`trust` and `verdict` (what may be concluded), `published` (what others reported), `words` (numbers as prose).
`synthetic` makes runs whose truth is known. Files and columns are explained in data/README.md.

Nothing is imported here: `workflow` runs before any package is installed.
"""
