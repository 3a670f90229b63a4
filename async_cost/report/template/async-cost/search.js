// The search box of a front page. Without this script the box is not shown.
"use strict";
const form = document.getElementById("search");
const box = form.querySelector("input");
const status = form.querySelector("[role=status]");
const list = form.querySelector("ol");
const entries = JSON.parse(document.getElementById("search-index").textContent);
const MOST = 30, AROUND = 70;  // results shown, characters shown before and after what was found

function snippet(text, place, length) {
  const start = Math.max(0, place - AROUND), end = Math.min(text.length, place + length + AROUND);
  const mark = document.createElement("mark");
  mark.textContent = text.slice(place, place + length);
  const line = document.createElement("p");
  line.append((start ? "… " : "") + text.slice(start, place), mark, text.slice(place + length, end) + (end < text.length ? " …" : ""));
  return line;
}

function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? entries.filter((entry) => {
    const all = (entry.page + " " + entry.heading + " " + entry.text).toLowerCase();
    return words.every((word) => all.includes(word));
  }) : [];
  list.replaceChildren(...found.slice(0, MOST).map((entry) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = entry.href;
    link.textContent = entry.page + ": " + entry.heading;
    item.append(link);
    const lower = entry.text.toLowerCase();
    const word = words.find((word) => lower.includes(word));
    if (word) item.append(snippet(entry.text, lower.indexOf(word), word.length));
    return item;
  }));
  const count = found.length === 1 ? "1 section" : found.length + " sections";
  status.textContent = words.length ? count + (found.length > MOST ? ", the first " + MOST + " shown" : "") : "";
}

form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
box.addEventListener("input", search);
