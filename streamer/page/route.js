// The part of the address after "#" describes the view, so that it can be stored, sent to somebody,
// and reloaded: #run=ID&only=trouble, #status=failed.

const listeners = new Set();

export function route() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

// href returns the address of another view.
export function href(to) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(to)) {
    if (value) params.set(key, value);
  }
  return "#" + params;
}

// refine changes details of the view, without adding an entry to the browser's history.
export function refine(change) {
  history.replaceState(null, "", href({ ...route(), ...change }));
  tell();
}

// go goes to another view.
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
