// Browser notifications for users who want to know when a run asks a question or fails. The browser
// stores the setting.

import { byID, setAttribute, setHidden, setText } from "./dom.js";
import { escaped } from "./format.js";
import { go } from "./route.js";

const key = "reprise-notify";
const button = byID("notify");
const known = "Notification" in globalThis;

function kept() {
  try {
    return localStorage.getItem(key) === "on";
  } catch {
    return false; // storage is switched off
  }
}
let wanted = kept();

// isOn reports whether this page shows notifications. A tab that shows them stays
// connected while it is hidden.
export const isOn = () => known && wanted && Notification.permission === "granted";

async function toggle() {
  if (isOn()) wanted = false;
  else wanted = (await Notification.requestPermission()) === "granted";
  try {
    localStorage.setItem(key, wanted ? "on" : "off");
  } catch {
    // The setting lasts until the user leaves the page.
  }
  show();
}

function show() {
  setHidden(button, !known);
  if (!known) return;
  const blocked = Notification.permission === "denied";
  setAttribute(button, "aria-pressed", String(isOn()));
  setAttribute(button, "title", blocked ? "This browser does not let this page notify you" : "Notify me when a run asks or fails, while I look elsewhere");
  setText(byID("notify-text"), blocked ? "Notifications are blocked" : isOn() ? "Notifies you" : "Notify me");
}

// take shows a notification for a new record, if notifications are on and the page is
// hidden.
export function take({ run_id, event_type, execution_status, awaits, name, message, original_error, replayed }) {
  if (replayed || !isOn() || !document.hidden) return;
  if (event_type === "question" && execution_status === "awaiting" && awaits !== "time" && awaits !== "signal") {
    tell(`${run_id} ${name}`, `Run ${run_id} asks`, message ?? name, run_id);
  } else if (event_type === "run" && execution_status === "failed") {
    tell(`${run_id} failed`, `Run ${run_id} failed`, original_error ?? "", run_id);
  }
}

// tell shows a notification. All tabs use the same tag for the same event, so the browser shows the
// event only once.
function tell(tag, title, text, run) {
  const shown = new Notification(title, { body: escaped(text), tag, icon: "icon.svg" });
  shown.onclick = () => {
    focus();
    go({ run });
    shown.close();
  };
}

button?.addEventListener("click", toggle);
show();
