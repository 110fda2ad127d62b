"use strict";
// What htmx does not do: report that a refresh failed, keep what is unfolded and scrolled as the
// reader left it, and copy a value. Without this script the pages show the same.
(() => {
  const places = "#fdbqueue-pause, #fdbqueue-figures, #fdbqueue-live";
  const parts = () => [...document.querySelectorAll(places)];
  const status = () => document.getElementById("fdbqueue-status");

  function say(message) {
    const place = status();
    if (place && place.textContent !== message) {
      place.textContent = message;
    }
  }

  function failed(kind) {
    const place = status();
    if (place) {
      say(place.dataset[kind]);
    }
  }

  let kept = [];
  let ticks = [];

  function keep() {
    kept = parts().flatMap((part) =>
      [...part.querySelectorAll("details[id], .fdbqueue-scroll[id]")].map((element) => ({
        id: element.id,
        open: element.open,
        left: element.scrollLeft,
        top: element.scrollTop,
      })),
    );
    ticks = [...document.querySelectorAll(".fdbqueue-tick:checked")].map((box) => box.id);
  }

  function restore() {
    for (const { id, open, left, top } of kept) {
      const element = document.getElementById(id);
      if (element) {
        if (open !== undefined) {
          element.open = open; // folded again, too, if the page shows it unfolded
        }
        element.scrollLeft = left;
        element.scrollTop = top;
      }
    }
    for (const box of document.querySelectorAll(".fdbqueue-tick")) {
      box.checked ||= ticks.includes(box.id); // of a row that is there still
    }
  }

  // A box for all rows of the page, which only this script can tick.
  function tickPage(event) {
    if (event.target instanceof Element && event.target.id === "tick-page") {
      for (const box of document.querySelectorAll(".fdbqueue-tick[name=id]")) {
        box.checked = event.target.checked;
      }
    }
  }

  function isBusy() {
    const selection = document.getSelection();
    const isSelecting = selection && !selection.isCollapsed;
    return document.hidden || (isSelecting && parts().some((p) => p.contains(selection.anchorNode)));
  }

  // No refresh while the page is hidden or text in it is being selected.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (isBusy()) {
      event.preventDefault();
    }
  });

  // On the body, because the helper that django-htmx adds while debugging listens on the document
  // and would replace this page with an error page.
  document.addEventListener("DOMContentLoaded", () => {
    document.body.addEventListener("htmx:beforeOnLoad", (event) => {
      const { xhr } = event.detail;
      if (xhr.getResponseHeader("X-Fdbqueue-Live")) {
        keep();
        say("");
        return;
      }
      event.preventDefault();
      event.stopPropagation();
      failed(xhr.status >= 500 ? "failed" : "refused");
    });
  });

  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, () => failed("failed"));
  }
  for (const name of ["htmx:afterSwap", "htmx:oobAfterSwap"]) {
    document.addEventListener(name, restore);
    document.addEventListener(name, showCopies);
  }

  // What a reader has unfolded is unfolded on the next page, too.
  const remembered = (fold) => `fdbqueue.${fold.id}`;

  function unfold() {
    try {
      for (const fold of document.querySelectorAll("details.fdbqueue-fold[id]")) {
        fold.open ||= localStorage.getItem(remembered(fold)) === "open";
      }
    } catch {
      // without a storage each page begins folded
    }
  }

  function remember(event) {
    const fold = event.target;
    if (fold instanceof Element && fold.matches("details.fdbqueue-fold[id]")) {
      try {
        localStorage.setItem(remembered(fold), fold.open ? "open" : "");
      } catch {
        // without a storage each page begins folded
      }
    }
  }

  function showCopies() {
    for (const element of document.querySelectorAll(".fdbqueue-copy, .fdbqueue-tick-page")) {
      element.hidden = false;
    }
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copies);
    const told =
      button.parentElement.parentElement.querySelector(".fdbqueue-copied") ||
      document.getElementById("fdbqueue-copied");
    try {
      await navigator.clipboard.writeText(source.textContent);
      told.textContent = button.dataset.copied;
    } catch {
      document.getSelection().selectAllChildren(source);
      told.textContent = button.dataset.failed;
    }
  }

  document.addEventListener("DOMContentLoaded", showCopies);
  document.addEventListener("DOMContentLoaded", () => {
    unfold();
    document.addEventListener("toggle", remember, true); // it does not bubble
  });
  document.addEventListener("change", tickPage);
  document.addEventListener("click", (event) => {
    const button = event.target.closest(".fdbqueue-copy");
    if (button) {
      copy(button);
    }
  });
})();
