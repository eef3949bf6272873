// The name under which the user acts: the name under which the user has signed in, or else a name
// that the page asks for and the browser stores.

import { make } from "./dom.js";

const key = "reprise-name";
let known = ""; // the user's name on the server

function kept() {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return ""; // storage is switched off
  }
}
let name = kept();

// learn stores the name by which the server knows the user, if any.
export const learn = (can) => (known = can?.as ?? "");

// signed adds the user's name to the body of a request, unless the server knows the user.
export const signed = (body) => (known || !name ? body : { ...body, by: name });

// nameField returns an element that shows the name under which the user acts. If the server does
// not know the user, the name can be changed there.
export function nameField(verb) {
  if (known) return make("span", { class: "who muted" }, `${verb} as `, make("b", {}, known));
  const input = make("input", { type: "text", maxlength: 100, autocomplete: "name", spellcheck: "false", placeholder: "dashboard", "data-who": true, value: name });
  input.value = name;
  input.addEventListener("input", () => rename(input));
  return make("label", { class: "who muted" }, `${verb} as `, input);
}

function rename(input) {
  name = input.value.trim();
  for (const other of document.querySelectorAll("[data-who]")) if (other !== input) other.value = input.value;
  try {
    localStorage.setItem(key, name);
  } catch {
    // The name lasts until the user leaves the page.
  }
}

// fill puts the name field into an element, and replaces the field if the user's name on the server
// changes.
export function fill(element, verb) {
  if (element.dataset.of === "=" + known) return;
  element.dataset.of = "=" + known;
  element.replaceChildren(nameField(verb));
}
