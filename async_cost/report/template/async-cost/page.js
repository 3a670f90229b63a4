// Replaces each static picture by the same chart with tooltips. Whatever fails, the picture stays.
"use strict";
for (const figure of document.querySelectorAll("figure.chart")) {
  const live = figure.querySelector(".live");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  // `ast`: expressions are interpreted, so the page needs no permission to evaluate code.
  const options = {
    mode: "vega-lite", renderer: "svg", ast: true, downloadFileName: document.title,
    actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
  };
  vegaEmbed(live, spec, options)
    .then(() => {
      figure.classList.add("drawn");
      // The chart is described by the element around it.
      live.querySelector("svg.marks").setAttribute("aria-hidden", "true");
    })
    .catch((error) => console.error("chart not drawn, the picture stays:", error));
}
