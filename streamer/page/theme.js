// Sets the colors before anything is painted. "auto" follows the system's setting.
const themes = ["auto", "light", "dark"];

function theme() {
  try {
    const kept = localStorage.getItem("reprise-theme");
    return themes.includes(kept) ? kept : "auto";
  } catch {
    return document.documentElement.dataset.theme ?? "auto"; // storage is switched off
  }
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("reprise-theme", name);
  } catch {
    // The setting lasts until the user leaves the page.
  }
}

document.documentElement.dataset.theme = theme();
