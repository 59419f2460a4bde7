// Keeps the live part of a page up to date. The page is complete without this script.
"use strict";
(() => {
  const path = document.body.dataset.events;
  const live = document.getElementById("live");
  const link = document.getElementById("link");
  if (!path || !live || !link) return;

  // Changes one element into another of the same shape, so that the focus and the position of a
  // screen reader stay.
  const morph = (from, to) => {
    if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
      from.replaceWith(to.cloneNode(true));
      return;
    }
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.data !== to.data) from.data = to.data;
      return;
    }
    for (const { name } of [...from.attributes]) {
      // A table that the reader has opened stays open.
      if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    const [before, after] = [[...from.childNodes], [...to.childNodes]];
    after.forEach((child, index) => {
      if (index < before.length) morph(before[index], child);
      else from.appendChild(child.cloneNode(true));
    });
    before.slice(after.length).forEach(child => child.remove());
  };

  // The text is announced by screen readers, so it changes with the state only.
  const state = (text, stale) => {
    if (link.textContent !== text) link.textContent = text;
    live.classList.toggle("stale", stale);
  };
  const clock = () => new Date().toLocaleTimeString();

  let latest = clock();
  let timer = 0;
  const late = () => state("The dashboard does not answer; the figures are from " + latest
    + ". The page continues when it does.", true);
  const source = new EventSource(path);
  source.onmessage = event => {
    // The same text as in the page, so that both have the same nodes.
    const text = `<div id="live">\n${event.data}\n</div>`;
    const shape = new DOMParser().parseFromString(text, "text/html").getElementById("live");
    live.classList.remove("stale");
    morph(live, shape);
    latest = clock();
    state("Live: the figures change by themselves.", false);
    clearTimeout(timer);
    timer = setTimeout(late, 15000);
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) {
      state("The page is not kept up to date: the session has ended, or too many pages are open. "
        + "Reload it.", true);
    } else {
      late();
    }
  };
})();
