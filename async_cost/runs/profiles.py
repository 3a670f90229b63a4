"""How much a run measures. The standard library alone: commands read this before anything is installed."""

#: From the least to the most. `smoke` is for tests: every variant, in about a minute.
PROFILES = ("smoke", "quick", "standard", "thorough")
#: Those that show that everything works and are never evidence.
NOT_EVIDENCE = ("smoke", "quick")
