// The currency of costs: programs count them in one of their choice, and do not say which.
// Whoever looks at the page may; this browser keeps it.

const key = "reprise-currency";

function read() {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return ""; // storage is switched off
  }
}
let name = read();

export const currency = () => name;

export function setCurrency(text) {
  name = text.trim().slice(0, 12);
  try {
    localStorage.setItem(key, name);
  } catch {
    // It holds until the page is left.
  }
}

// follow makes controls that set the currency show and change it.
export function follow(inputs, changed) {
  for (const input of inputs) {
    input.value = name;
    input.addEventListener("input", () => {
      setCurrency(input.value);
      for (const other of inputs) if (other !== input) other.value = input.value;
      changed();
    });
  }
}
