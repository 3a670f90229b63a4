// A form above the prices that a program is made of: it evaluates the sum of async_cost/studies/program.py and keeps what was entered in the address.
"use strict";
for (const box of document.querySelectorAll(".program")) {
  const terms = JSON.parse(box.dataset.value), inputs = new Map(), MARK = "#program?";
  const form = document.createElement("form");
  form.className = "filters";
  form.setAttribute("aria-label", "Your program");
  for (const term of terms.filter((one) => one.name !== "request")) {
    const label = form.appendChild(document.createElement("label")), input = document.createElement("input");
    Object.assign(input, { type: "number", min: 0, step: "any", name: term.name, value: term.usual, inputMode: "decimal" });
    label.append(`${term.label[0].toUpperCase()}${term.label.slice(1)}`, input);
    inputs.set(term.name, input);
  }
  const result = form.appendChild(document.createElement("output")), link = form.appendChild(document.createElement("a"));
  link.textContent = "A link to these values";

  const time = (ns) => {
    const [unit, size] = Math.abs(ns) >= 1e6 ? ["ms", 1e6] : Math.abs(ns) >= 1e3 ? ["µs", 1e3] : ["ns", 1];
    return `${Number((ns / size).toPrecision(3))}\u00a0${unit}`.replace("-", "\u2212");
  };
  const evaluate = () => {
    const count = (term) => (inputs.has(term.name) ? Number(inputs.get(term.name).value) : 1);
    const over = (end) => Math.hypot(...terms.map((term) => (count(term) - term.origin) * (term[end] - term.ns)));
    const ns = terms.reduce((sum, term) => sum + (count(term) - term.origin) * term.ns, 0);
    const beyond = terms.filter((term) => !(term.least <= count(term) && count(term) <= term.most));
    return { ns, low: ns - over("low"), high: ns + over("high"), beyond };
  };
  const show = () => {
    const { ns, low, high, beyond } = evaluate(), work = Number(inputs.get("work")?.value ?? 0) * 1000;
    const share = work > 0 ? `, ${Number(((100 * ns) / work).toPrecision(2))}\u00a0% of its work` : "";
    const doubt = beyond.map((term) => `${term.label} (measured from ${Number(term.least.toPrecision(3))} to ${Number(term.most.toPrecision(3))})`);
    result.value = `Async adds ${time(ns)} (95\u00a0% interval ${time(low)} to ${time(high)}) to each request${share}.`
      + (doubt.length ? ` This extrapolates: ${doubt.join("; ")}.` : "");
    Object.assign(result.dataset, { ns, low, high, beyond: beyond.map((term) => term.name).join(" ") });
    link.href = MARK + [...inputs].map(([name, input]) => `${name}=${encodeURIComponent(input.value)}`).join("&");
  };
  const read = () => {
    if (!location.hash.startsWith(MARK) || location.hash === link.getAttribute("href")) return;
    for (const [name, value] of new URLSearchParams(location.hash.slice(MARK.length))) {
      if (inputs.has(name) && value !== "" && Number(value) >= 0) inputs.get(name).value = Number(value);
    }
    show();
    form.scrollIntoView();
  };
  form.addEventListener("input", () => {
    show();
    location.replace(link.getAttribute("href"));
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", read);
  box.prepend(form);
  show();
  read();
}
