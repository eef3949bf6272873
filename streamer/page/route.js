// What is shown is in the part of the address after "#", so that it can be
// kept, sent to somebody and loaded anew: #run=ID&only=trouble, #status=failed.

const listeners = new Set();

export function route() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

// href is the address of another place.
export function href(to) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(to)) {
    if (value) params.set(key, value);
  }
  return "#" + params;
}

// refine changes what is shown of a place, without a step in the history.
export function refine(change) {
  history.replaceState(null, "", href({ ...route(), ...change }));
  tell();
}

// go leads to another place.
export function go(to) {
  location.hash = href(to);
}

export function onRoute(listener) {
  listeners.add(listener);
}

function tell() {
  const to = route();
  for (const listener of listeners) listener(to);
}

addEventListener("hashchange", tell);
