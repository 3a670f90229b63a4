"""How much a run measures. The standard library alone: commands read this before anything is installed."""

#: From the least to the most. `smoke` is for tests: every variant, in about a minute.
PROFILES = ("smoke", "quick", "standard", "thorough")
#: Those that show that everything works and are never evidence.
NOT_EVIDENCE = ("smoke", "quick")
#: Load average over a minute, for each processor, below which a machine is quiet: what is evidence waits for that.
QUIET_LOAD = 0.3
