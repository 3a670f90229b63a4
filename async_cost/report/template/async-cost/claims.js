// Filters above a list of claims. Without this script the whole list is there to be read.
"use strict";
for (const list of document.querySelectorAll(".claims")) {
  const claims = [...list.querySelectorAll(".claim")];
  const has = (name) => (claim) => claim.classList.contains(name);
  const contains = (words) => (claim) => words.every((word) => claim.textContent.toLowerCase().includes(word));
  const studies = [...new Set(claims.flatMap((claim) => [...claim.classList].filter((name) => name.startsWith("of-"))))];
  const choices = [
    ["Outcome", [["does-not-hold", "does not hold"], ["undecided"], ["holds"], ["not-measurable-here", "not measurable here"], ["not-measured", "not measured"]]],
    ["Study", studies.map((name) => [name, name.slice(3)])],
    ["Basis", [["prose", "said in prose"], ["figures", "figures only"], ["confounded"]]],
  ];

  const form = document.createElement("form");
  form.className = "filters";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Filter the claims");
  const labelled = (text, control) => {
    const label = document.createElement("label");
    label.append(text, control);
    form.append(label);
    return control;
  };
  const selects = choices.map(([text, options]) => {
    const select = labelled(text, document.createElement("select"));
    select.add(new Option("all", ""));
    for (const [name, shown = name] of options) select.add(new Option(shown, name));
    return select;
  });
  const search = labelled("Words", document.createElement("input"));
  search.type = "search";
  const count = form.appendChild(document.createElement("output"));

  const show = () => {
    const tests = selects.filter((select) => select.value).map((select) => has(select.value));
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) tests.push(contains(words));
    for (const claim of claims) claim.hidden = !tests.every((test) => test(claim));
    for (const box of list.querySelectorAll(".study, details.rest")) {
      box.hidden = !box.querySelector(".claim:not([hidden])");
    }
    // What is folded away would look like nothing found.
    for (const rest of list.querySelectorAll("details.rest")) rest.open = tests.length > 0;
    count.value = `${claims.filter((claim) => !claim.hidden).length} of ${claims.length} claims`;
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  list.prepend(form);
  show();
}
