// Shows where a number comes from when it is pointed at or has the focus. Without this script its link does the same.
"use strict";
{
  let shown = null, pinned = false;
  // A note lies in the half of the window in which its number is not: else it would come between the number and the pointer.
  const noteOf = (link) => {
    const note = document.getElementById(link.hash.slice(1)), box = link.getBoundingClientRect();
    note.classList.toggle("above", box.top + box.bottom > innerHeight);
    return note;
  };
  const show = (note) => {
    shown?.classList.remove("shown");
    shown = note;
    shown?.classList.add("shown");
  };
  for (const link of document.querySelectorAll('a[href^="#note-"]')) {
    link.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && !pinned && show(noteOf(link)));
    link.addEventListener("pointerleave", () => !pinned && show(null));
    link.addEventListener("focus", () => !pinned && show(noteOf(link)));
    link.addEventListener("blur", () => !pinned && show(null));
    link.addEventListener("click", (event) => {
      event.preventDefault();
      pinned = true;
      show(noteOf(link));
      shown.focus({ preventScroll: true });
      shown.onclose = () => link.focus({ preventScroll: true });
    });
  }
  const close = () => {
    const back = shown?.onclose;
    if (location.hash.startsWith("#note-")) location.hash = "#_";
    show(null);
    pinned = false;
    back?.();
    show(null);
  };
  document.addEventListener("keydown", (event) => event.key === "Escape" && close());
  for (const link of document.querySelectorAll(".notes .close")) {
    link.addEventListener("click", (event) => { event.preventDefault(); close(); });
  }
}
