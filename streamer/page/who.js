// Who acts: the name that the server has of whoever signed in; where nobody signs in, a
// name that the page asks for. This browser keeps it.

import { make } from "./dom.js";

const key = "reprise-name";
let known = ""; // by the server

function kept() {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return ""; // storage is switched off
  }
}
let name = kept();

// learn takes over what the server says of the sender.
export const learn = (can) => (known = can?.as ?? "");

// signed adds the name to what is posted.
export const signed = (body) => (known || !name ? body : { ...body, by: name });

// nameField shows under which name something is done, and lets it be changed where nobody
// signs in.
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
    // It is there until the page is left.
  }
}

// fill puts the field into an element, once for each sender.
export function fill(element, verb) {
  if (element.dataset.of === "=" + known) return;
  element.dataset.of = "=" + known;
  element.replaceChildren(nameField(verb));
}
