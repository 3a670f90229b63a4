"""A run as an analysis notebook reads it: polars frames (data/README.md has their columns), and findings that are
judged as they are said.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import msgspec
import polars as pl
from IPython.display import Markdown, display

from async_cost import words
from async_cost.findings import finding, names, record
from async_cost.findings.committed import called, definitions
from async_cost.findings.definitions import hashes_of
from async_cost.findings.finding import Judge
from async_cost.findings.operands import Expected, Pair, Pairs, Quantity
from async_cost.findings.prices import prices
from async_cost.findings.record import Finding
from async_cost.literature import replication
from async_cost.literature.claims import NO_CLAIM
from async_cost.literature.published import load_published, published_studies, published_times
from async_cost.report import charts
from async_cost.report import finding as shown
from async_cost.report.calculator import calculator
from async_cost.report.claims import advice, cited, claims, counted, elsewhere, in_numbers
from async_cost.report.records import remarks
from async_cost.report.tables import Table
from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.find import choose_run
from async_cost.runs.judged import seen_by
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.run import Run
from async_cost.statistics.interval import centres
from async_cost.statistics.measured import both_ways
from async_cost.statistics.statement import Outcome
from async_cost.statistics.table import comparisons
from async_cost.statistics.trials import trial_values


class Reading:
    """The frames of one run; a study that it lacks has no rows in them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._judge = Judge(run)

    def __repr__(self) -> str:
        return f"run {self.run.info.run_id}, {self.run.info.profile}: {', '.join(self.run.info.studies)}"

    @cached_property
    def comparisons(self) -> pl.DataFrame:
        """A row for each measured comparison, as declared and turned round: study, KEY, baseline_…, ratio, low, high,
        added_ns, added_low, added_high, verdict and the others of `statistics.table.Comparisons`; published (the ratio
        that a document reported of equal loads, null where there is none). Without controls.
        """
        rows = both_ways(comparisons(self.run).frame.filter(~pl.col("control")).drop_nulls("ratio"))
        times = pl.concat(
            published_times(study).select(pl.lit(study).alias("study"), *KEY, "ns") for study in published_studies()
        )
        mine = rows.join(times, on=["study", *KEY], how="left", maintain_order="left")
        base = times.select("study", *(pl.col(name).alias(f"baseline_{name}") for name in (*KEY, "ns")))
        both = mine.join(base, on=["study", *BASE_KEY], how="left", maintain_order="left")
        # Of different loads a document reports whole programs, and a run what one unit of their work takes.
        alike = pl.col("parameter") == pl.col("baseline_parameter")
        ratio = pl.when(alike).then(pl.col("ns") / pl.col("baseline_ns"))
        return both.with_columns(published=ratio).drop("ns", "baseline_ns")

    @property
    def controls(self) -> pl.DataFrame:
        """The A/A controls: the same columns."""
        return comparisons(self.run).frame.filter("control").drop_nulls("ratio")

    @cached_property
    def counts(self) -> pl.DataFrame:
        """Exact counts: study, KEY, counter, value, units (of work that it is of; 1 where none is
        counted, null where that is unknown), each (value / units).
        """
        run = self.run
        parts = [run.counts(study).join(run.counted_units(study), on=KEY, how="left") for study in self.studies]
        counted = pl.concat(parts).select("study", *KEY, "counter", "value", "units")
        return counted.with_columns(each=pl.col("value") / pl.col("units"))

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """What else was noted of samples: study, KEY, metric, value (as findings estimate it; of an iteration if it
        adds up over a sample), q1, q3, rounds.
        """
        parts = [
            trial_values(self.run, study, metric).with_columns(study=pl.lit(study), metric=pl.lit(metric))
            for study in self.run.info.studies
            for metric in self.run.metrics(study)["metric"].unique()
        ]
        by, value = ("study", *KEY, "metric"), pl.col("value")
        # As findings do: times by their logarithms, counts as they are.
        logs = (value.min().over(by) > 0) & pl.col("metric").str.ends_with("_ns")
        columns = {**dict.fromkeys(("study", *KEY, "metric"), pl.String), "value": pl.Float64}
        rounds = pl.concat([pl.DataFrame(schema=columns), *parts], how="diagonal").with_columns(logs=logs)
        numbers = {"q1": value.quantile(0.25), "q3": value.quantile(0.75), "rounds": pl.len()}
        spread = rounds.group_by(by).agg(**numbers, logs=pl.col("logs").first())
        table = centres(rounds.with_columns(pl.when("logs").then(value.log()).otherwise(value)), "value", by)
        table = table.join(spread, on=by).with_columns(pl.when("logs").then(value.exp()).otherwise(value))
        return table.drop("logs").sort(by)

    @property
    def published(self) -> pl.DataFrame:
        """The figures of the documents, of their latest printing: study, KEY, metric, value, unit, …"""
        return pl.concat([load_published(study) for study in published_studies()], how="diagonal_relaxed")

    @cached_property
    def prices(self) -> pl.DataFrame:
        """What data/prices.csv lists, with the prices of this run: `findings.prices.COLUMNS`."""
        return prices(self.run)

    def calculator(self, **counts: float) -> Table:
        """A worked example that does so much of the prices with these ids (`_` for `-`), and on a page a calculator."""
        return calculator(self.run, self.prices, {id.replace("_", "-"): count for id, count in counts.items()})

    @cached_property
    def claims(self) -> pl.DataFrame:
        """The published claims with what this run says of each: the columns of `report.claims.claims`."""
        return claims(self.run)

    @property
    def counted_claims(self) -> pl.DataFrame:
        """The claims as they are counted: the columns of `report.claims.counted`."""
        return counted(self._real_claims())

    def score(self) -> None:
        """Say what may be quoted of each document, how many claims hold, and whether the run is a test of them."""
        claims = self._real_claims()
        if self.run.info.profile in NOT_EVIDENCE:
            return say(
                f"**A {self.run.info.profile} run judges claims on counts alone**; below stands what it measured."
            )
        say(f"**Together: {advice(claims, numbers=False)}.** Each by itself:")
        documents = claims.partition_by("document", maintain_order=True)
        say(words.bullets([f"{cited(rows)}: {advice(rows)}" for rows in documents]))
        score = replication.score(Counter(map(Outcome, self.counted_claims["outcome"])))
        say(f"In all, {score}. {replication.validity_sentence(self.run)}")

    def quotable(self, study: str, document: str) -> None:
        """Say what may be quoted of a study's document, with a link to each of its claims."""
        claims = self._real_claims(study=study)
        link = f"[each of them](../replication/analysis.ipynb#{claims['document'][0]})"
        if self.run.info.profile in NOT_EVIDENCE:
            return say(
                f"What of {words.escape(document)} may be quoted, a {self.run.info.profile} run does not say ({link})."
            )
        advised = advice(claims)
        may = "you may " if advised.startswith("quote") else ""
        say(f"From {words.escape(document)}, {may}{advised} ({link}).")

    def reproduced(self, document: str) -> None:
        """Say how many claims of a document hold, of each kind, here and on the committed machines."""
        claims = self._real_claims(document=document)
        say(f"{cited(claims)}. {in_numbers(claims, dict(elsewhere(self.run)))}")

    def _real_claims(self, **which: str) -> pl.DataFrame:
        return self.claims.filter(pl.col("outcome") != NO_CLAIM, **which)

    def versions(self, *crates: str) -> None:
        """Say which versions of these crates the run measured."""
        measured = {name: self.run.info.crates.get(name, "unknown") for name in crates}
        named = (
            f"{name} {version if isinstance(version, str) else ' / '.join(version)}"
            for name, version in measured.items()
        )
        say(f"Versions: {words.escape(words.listing(named))}.")

    @property
    def studies(self) -> list[str]:
        """The studies that the run holds."""
        return list(self.run.info.studies)

    @cached_property
    def remarks(self) -> pl.DataFrame:
        """What the records say about disturbances, failures and gaps, and what was found out since: study, remark."""
        rows = [(study, remark) for study in self.studies for remark in remarks(self.run, study)]
        return pl.DataFrame(rows, schema={"study": pl.String, "remark": pl.String}, orient="row")

    @property
    def definitions(self) -> pl.DataFrame:
        """How findings are defined: data/findings.csv."""
        return definitions()

    def samples(self, study: str) -> pl.DataFrame:
        """The raw samples of a study: KEY, round, position, sample, iterations, elapsed_ns, episode (the process)."""
        return self.run.time(study)

    def pick(self, *some: Pair | Pairs) -> pl.DataFrame:
        """Return the comparisons of these pairs, in their order, with `name`, what the variant is called; without those
        that the run lacks.
        """
        chosen = (pair for pairs in some for pair in ([pairs] if isinstance(pairs, Pair) else pairs))
        wanted = dict.fromkeys((pair.study, *pair.key, *pair.baseline) for pair in chosen)
        order = pl.DataFrame(list(wanted), schema=dict.fromkeys(("study", *PAIR), pl.String), orient="row")
        rows = order.join(self.comparisons, on=["study", *PAIR], maintain_order="left")
        called = [names.name(*row) for row in rows.select("study", "variant").iter_rows()]
        return rows.select(self.comparisons.columns).with_columns(name=pl.Series(called, dtype=pl.String))

    def picked(self, column: str, groups: Mapping[str, Iterable[Pair | Pairs]]) -> pl.DataFrame:
        """The comparisons of each group, with its name in `column`."""
        return pl.concat(self.pick(*some).with_columns(pl.lit(name).alias(column)) for name, some in groups.items())

    def values(self, *some: Quantity) -> pl.DataFrame:
        """Return a row for each measured case of these quantities: KEY, value, low, high (in its unit), and name, what
        the variant is called.
        """
        rows = [
            (*side.key, effect.value, effect.low, effect.high, names.name(side.study, side.variant))
            for quantity in some
            for ((side, *_), *_), effect in zip(quantity.cases, self._judge.effects(quantity), strict=True)
            if effect.value is not None
        ]
        numbers = dict.fromkeys(("value", "low", "high"), pl.Float64)
        schema = dict.fromkeys(KEY, pl.String) | numbers | {"name": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def finding(
        self,
        id: str,
        sentence: str,
        label: str,
        *,
        note: str = "",
        so: str = "",
        processors: int = 1,
        **slots: Quantity | Expected,
    ) -> shown.RenderedFinding:
        """Say a sentence whose numbers this run fills in, and judge those of which something is expected.

        Each `{slot}` of the sentence is a quantity, or a quantity with what is expected of it (`.expect(least, most)`).
        The label is true of any numbers: its parts, with a semicolon between them, say what each is (`what async adds:
        {free}; with calls: {calls}`). `note` is how they were measured, `so` what follows if they are as expected, in
        Markdown; `processors` is how many the sentence is about.
        """
        page = Path.cwd().name
        definition = finding.finding(page, id, sentence, label, slots, note=note, so=so, processors=processors)
        return _show(definition, shown.said(replace(self._judge(definition), tested=self._tests(definition)), self.run))

    def yardstick(self, label: str, **slot: Quantity) -> None:
        """Have a page of a machine of another kind than the committed ones begin with how fast it is: by one time,
        which the label names.
        """
        definition = finding.finding(Path.cwd().name, "yardstick", f"{label}.", label, slot)
        _show(definition, shown.yardstick(self._judge(definition), self.run))

    def on_top(self, rows: Mapping[str, Pair]) -> pl.DataFrame:
        """Return what pairs add on top of their baselines, for `bars`, of those that the run holds: row, base and added
        (ns a unit of work), strong and plain (both as text).
        """
        bars = []
        for name, pair in rows.items():
            quantities = pair.added, pair.turned.time(), pair.ratio
            added, base, ratio = (self._judge.effects(quantity)[0].value for quantity in quantities)
            if added is not None and base is not None and ratio is not None:
                more = f"{words.figure(100 * abs(ratio - 1))}{words.PERCENT} {'more' if ratio >= 1 else 'less'}"
                compared = f"{words.figure(ratio)} times as long" if ratio > 2 else more
                strong = words.signed(words.short_time(added))
                bars.append((name, base, added, strong, f"on {words.short_time(base)}: {compared}"))
        return pl.DataFrame(bars, ["row", "base", "added", "strong", "plain"], orient="row")

    def why(self, *findings: shown.RenderedFinding) -> None:
        """Say whether findings that follow from a cause are as expected, on this machine and on the committed ones."""
        here = {rendered.mark for rendered in findings}
        if not here & set(shown.DECIDED):
            return
        others = list(dict.fromkeys(name for rendered in findings for name in rendered.elsewhere))
        own = called(self.run)
        marks = {f"{own} here" if own in others else own: here}
        marks |= {name: {rendered.elsewhere.get(name, "?") for rendered in findings} for name in others}
        # What was written after a machine was seen agrees with it, and is not confirmed by it.
        verdicts = {"refuted": {"≠"}, "confirmed": {"✓"}, "consistent": {"✓", shown.FITTED}}
        machines: dict[str, list[str]] = {verdict: [] for verdict in (*verdicts, "open")}
        for name, some in marks.items():
            machines[next((verdict for verdict, allowed in verdicts.items() if some <= allowed), "open")].append(name)
        parts = [f"{verdict} on the {words.listing(names)}" for verdict, names in machines.items() if names]
        say(f"**Cause {', '.join(parts)}.**")

    def _tests(self, definition: Finding) -> bool:
        """Whether what a finding expects is as it was before the run began."""
        tested, hashes = seen_by(self.run, "findings"), hashes_of([definition])
        return all(hashes[definition.id, slot.name] in tested for slot in definition.judged)


def _show(definition: Finding, rendered: shown.RenderedFinding) -> shown.RenderedFinding:
    """Display what is said, with its definition and itself in the metadata."""
    text = shown.markdown(rendered)
    records = {record.RECORD: record.record(definition), shown.SAID: msgspec.to_builtins(rendered)}
    display({"text/markdown": text, "text/plain": words.plain(text)}, raw=True, metadata=records)
    return rendered


def say(text: str) -> None:
    """Say a computed sentence, in Markdown."""
    display(Markdown(text))


def open(study: str | None = None, *, instead: str | None = None) -> Reading:
    """The run that the environment variable ASYNC_COST_RUN names, else the newest that holds `study`; the theme of
    charts is set. `instead` is what a notebook can do with if `study` is missing. Outside of a report, whose pages name
    the run, it is said which one that is.
    """
    charts.enable()
    pl.Config.set_tbl_hide_dataframe_shape(True)
    run = choose_run(study, instead=instead)
    if "ASYNC_COST_ANALYSES" not in os.environ:
        named = os.environ.get("ASYNC_COST_RUN")
        how = "ASYNC_COST_RUN names it" if named else "the newest; ASYNC_COST_RUN names another"
        cpu = words.escape(run.info.machine.cpu or "an unknown processor")
        say(f"Run {run.info.run_id} ({how}), measured on {cpu}.")
    return Reading(run)
