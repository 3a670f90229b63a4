// Turns the worked example into a calculator. What it reads stands before it, in COUNTED; the counts are in the address.
"use strict";
{
  const { machines, runtimes, rows } = COUNTED, PREFIX = "#counts:", MOST = 1e6;
  const make = (name, text, more) => Object.assign(document.createElement(name), { textContent: text ?? "" }, more);
  const time = (ns) => {
    const units = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]], rounded = Math.abs(Number(ns.toPrecision(3)));
    const [unit, size] = units.find((one) => rounded >= one[1]) ?? units.at(-1);
    return `${Number((ns / size).toPrecision(3)) ? (ns / size).toPrecision(3).replace("-", "−") : 0}\u00a0${unit}`;
  };
  const priced = (price) => price ? time(price[0]) + (price[3] ? " ?" : "") : "not measured";
  // The ends of the intervals add up, too: the errors are those of one machine.
  const sum = (counts, machine, runtime) => {
    const parts = rows.map((row, at) => [counts[at], row.prices[machine][runtime]]).filter(([count]) => count > 0);
    if (parts.some(([, price]) => !price)) return null;
    const added = (of) => parts.reduce((before, [count, price]) => before + count * price[of], 0);
    return [added(0), added(1), added(2), parts.some(([, price]) => price[3])];
  };

  const table = make("table"), said = make("p", "", { role: "status" });
  const head = table.createTHead().insertRow(), body = table.createTBody(), foot = table.createTFoot();
  for (const name of ["a request does", "how often", ...runtimes]) head.append(make("th", name, { scope: "col" }));
  const inputs = rows.map((row) => {
    const line = body.insertRow(), label = make("label", row.what, { htmlFor: `count-${row.id}` });
    const input = make("input", "", { id: label.htmlFor, inputMode: "decimal", autocomplete: "off" });
    label.append(make("small", `per ${row.unit}; ${row.driven}`));
    line.append(make("th", "", { scope: "row" }));
    line.firstChild.append(label);
    line.insertCell().append(input);
    for (const price of row.prices[0]) line.insertCell().textContent = priced(price);
    input.addEventListener("input", () => update(true));
    return input;
  });
  const sums = machines.map((machine) => {
    const line = foot.insertRow();
    line.append(make("th", `together, ${machine}`, { scope: "row", colSpan: 2 }));
    return runtimes.map(() => line.insertCell());
  });

  const fill = (counts) => inputs.forEach((input, at) => { input.value = counts.get(rows[at].id) ?? "0"; });
  const example = new Map(rows.map((row) => [row.id, `${row.count}`]));
  let unknown = [];
  const update = (note) => {
    const counts = inputs.map((input) => {
      const text = input.value.trim(), count = /^(\d+\.?\d*|\.\d+)$/.test(text) ? Number(text) : text ? NaN : 0;
      return count <= MOST ? count : NaN;
    });
    const wrong = inputs.filter((input, at) => {
      input.setAttribute("aria-invalid", Number.isNaN(counts[at]));
      input.closest("tr").classList.toggle("none", counts[at] === 0);
      return Number.isNaN(counts[at]);
    });
    sums.forEach((cells, machine) => cells.forEach((cell, runtime) => {
      const found = wrong.length ? undefined : sum(counts, machine, runtime);
      cell.textContent = found === undefined ? "–" : priced(found);
      if (found) cell.append(make("small", `${time(found[1])} to ${time(found[2])}`));
    }));
    if (note) unknown = [];
    const drivers = new Set(rows.filter((row, at) => counts[at] > 0).map((row) => row.driven));
    const problems = wrong.map((input) => `“${input.value.slice(0, 40)}” is no count for “${input.labels[0].firstChild.data}”.`);
    problems.push(...unknown.map((id) => `The address counts “${id.slice(0, 40)}”, which has no price here.`));
    said.textContent = problems.length ? `${problems.join(" ")} A count is a number from 0 to 1,000,000.`
      : drivers.size > 1 ? `The sum mixes what was driven differently: ${[...drivers].join("; ")}.` : "";
    if (note && !wrong.length) {
      const state = rows.map((row, at) => [row.id, counts[at]]).filter(([, count]) => count > 0);
      history.replaceState(null, "", PREFIX + new URLSearchParams(state));
    }
  };
  const read = () => {
    if (!location.hash.startsWith(PREFIX)) return false;
    const given = new URLSearchParams(location.hash.slice(PREFIX.length));
    unknown = [...given.keys()].filter((id) => !example.has(id));
    fill(given);
    update(false);
    return true;
  };
  const back = make("button", "Back to the worked example", { type: "button" });
  back.addEventListener("click", () => { fill(example); update(true); });
  const place = document.querySelector(".calculator"), scrolls = place.querySelector(".table");
  table.createCaption().textContent = `What your request does; the time of one: ${machines[0]}`;
  scrolls.setAttribute("aria-label", "Calculator");
  scrolls.replaceChildren(table);
  place.append(said, back);
  addEventListener("hashchange", read);
  if (!read()) { fill(example); update(false); }
}
