"""async-cost: from the raw samples of a run to sentences with error bars.

Read in this order: `load` (a run, or an error that says what to repair), `estimate` (ratios within a round, intervals),
`trust` and `verdict` (what may be concluded), `published` (what others reported), `words` (numbers as prose),
`charts` and `publish` (what a reader sees). `synthetic` makes runs whose truth is known. `workflow`, `steps` and `toolchain`
are behind the Makefile. Files and columns are explained in data/README.md.

Nothing is imported here: `workflow` runs before any package is installed. Import the modules by name.
"""
