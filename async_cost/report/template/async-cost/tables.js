// Folded tables can be filtered by words and sorted by a column; without scripts they are whole and in their order.
for (const fold of document.querySelectorAll("details.fold")) {
  const table = fold.querySelector("table"), body = table && table.tBodies[0];
  if (!body || body.rows.length < 2) continue;
  const rows = [...body.rows], label = document.createElement("label"), input = document.createElement("input");
  label.textContent = "Show rows with ";
  input.type = "search";
  label.append(input);
  (fold.querySelector(".table") || table).before(label);
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word));
  });
  const heads = [...(table.tHead ? table.tHead.rows[table.tHead.rows.length - 1].cells : [])];
  // A number may have thousands separators, a true minus, and a unit after it.
  const size = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };
  const key = (row, at) => {
    const text = row.cells[at].textContent.trim(), found = /^([−-]?[\d,. ]+)\s*(ns|µs|ms|s)?/.exec(text);
    return found ? parseFloat(found[1].replace("−", "-").replace(/[, ]/g, "")) * (size[found[2]] || 1) : text;
  };
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const turned = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", turned ? "descending" : "ascending");
      const sign = turned ? -1 : 1;
      const order = (a, b) => {
        const [one, other] = [key(a, at), key(b, at)];
        const both = typeof one === typeof other;
        return both ? (one < other ? -sign : one > other ? sign : 0) : typeof one === "number" ? -1 : 1;
      };
      body.append(...rows.toSorted(order));
    });
  });
}
