// Sorts and filters the price list, and hands it out as CSV. Without this script the whole list is there to be read.
"use strict";
for (const list of document.querySelectorAll(".prices")) {
  const body = list.querySelector("tbody"), heads = [...list.querySelectorAll("thead th")];
  const rows = [...body.rows];
  const text = (cell) => cell.textContent.trim();
  const kindOf = (row) => text(row.cells[0].querySelector("small"));
  const numeric = heads.map((_, column) => rows.some((row) => "value" in row.cells[column].dataset));
  const time = numeric.indexOf(true);
  // What has no number comes last, whichever way the others are sorted.
  const value = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : numeric[column] ? Infinity : text(cell).toLowerCase();
  };

  const form = document.createElement("form");
  form.className = "filters";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Filter the prices");
  const labelled = (name, control) => {
    const label = document.createElement("label");
    label.append(name, control);
    form.append(label);
    return control;
  };
  const choice = (name, of) => {
    const select = labelled(name, document.createElement("select"));
    select.add(new Option("all", ""));
    for (const word of new Set(rows.map(of))) if (word) select.add(new Option(word, word));
    return [select, of];
  };
  const selects = [choice("Kind", kindOf), choice("By whom", (row) => text(row.cells[1]))];
  const search = labelled("Words", document.createElement("input"));
  search.type = "search";
  const count = form.appendChild(document.createElement("output"));
  const link = form.appendChild(document.createElement("a"));
  link.textContent = "These rows as CSV";
  link.download = "prices.csv";

  const quoted = (word) => `"${word.replaceAll('"', '""')}"`;
  const csv = (shown) => {
    const line = (row) => [
      kindOf(row), ...[...row.cells].map((cell, column) => {
        if ("value" in cell.dataset) return cell.dataset.value;
        return column ? text(cell) : text(cell).slice(0, -kindOf(row).length).trim();
      }),
    ];
    return [["kind", ...heads.map(text)], ...shown.map(line)].map((cells) => cells.map(quoted).join(",")).join("\n") + "\n";
  };
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const chosen = selects.every(([select, of]) => !select.value || of(row) === select.value);
      row.hidden = !(chosen && words.every((word) => text(row).toLowerCase().includes(word)));
    }
    const shown = [...body.rows].filter((row) => !row.hidden);
    count.value = `${shown.length} of ${rows.length} prices`;
    link.href = `data:text/csv;charset=utf-8,${encodeURIComponent(csv(shown))}`;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (one, other) => {
        const [a, b] = [value(one, column), value(other, column)];
        return a === Infinity || b === Infinity ? (a === b ? 0 : a === Infinity ? 1 : -1) : (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
      };
      body.append(...[...rows].sort(order));
      show();
    });
  });
  // Behind each time a bar, for ten times the time the same piece longer.
  const logs = rows.map((row) => Math.log10(value(row, time)));
  const known = logs.filter(Number.isFinite), [least, most] = [Math.min(...known), Math.max(...known)];
  rows.forEach((row, place) => {
    if (!Number.isFinite(logs[place])) return;
    const share = 4 + (96 * (logs[place] - least)) / (most - least);
    row.cells[time].style.backgroundImage = `linear-gradient(to right, var(--bar) ${share}%, transparent 0)`;
  });

  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  list.prepend(form);
  show();
}
