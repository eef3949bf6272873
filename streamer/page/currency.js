// The currency of costs. Programs count costs in a currency of their choice, and do not report
// which one. The user can enter its name on the page, and the browser stores it.

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
    // The setting lasts until the user leaves the page.
  }
}

// follow connects input fields with the currency: they show it, and can change it.
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
