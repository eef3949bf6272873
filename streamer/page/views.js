// Saved views. A view is a name and the filters in the address. The browser stores them.

import { make, byID } from "./dom.js";

const key = "reprise-views";

function read() {
  try {
    const views = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(views) ? views.filter((view) => typeof view?.name === "string" && typeof view?.hash === "string") : [];
  } catch {
    return []; // storage is switched off, or contains something else
  }
}

function write(views) {
  try {
    localStorage.setItem(key, JSON.stringify(views));
  } catch {
    // The view lasts until the user leaves the page.
  }
}

const select = byID("views");
const name = byID("view-name");
let views = read();

function draw() {
  select.replaceChildren(make("option", { value: "" }, "saved views"), ...views.map((view) => make("option", { value: view.name }, view.name)));
  byID("view-delete").disabled = true;
}

select.addEventListener("change", () => {
  const view = views.find((one) => one.name === select.value);
  byID("view-delete").disabled = !view;
  if (view) location.hash = view.hash;
});

byID("view-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = name.value.trim();
  if (!text) return name.focus();
  views = [...views.filter((view) => view.name !== text), { name: text, hash: location.hash }].sort((a, b) => (a.name < b.name ? -1 : 1));
  write(views);
  draw();
  select.value = text;
  byID("view-delete").disabled = false;
  name.value = "";
});

byID("view-delete").addEventListener("click", () => {
  views = views.filter((view) => view.name !== select.value);
  write(views);
  draw();
});

draw();
