// Questions to a human: prominent, and where it is allowed with the means to
// answer them.

import { make, list, setText, icon } from "./dom.js";
import { now, parse } from "./clock.js";
import { age } from "./format.js";
import { post, runPath } from "./request.js";
import { href } from "./route.js";

// questionsOf collects what the runs ask, the oldest question first.
export function questionsOf(runs) {
  const all = [];
  for (const run of runs) {
    for (const question of run.questions) all.push({ run: run.run_id, ...question });
  }
  return all.sort((a, b) => parse(a.asked_at) - parse(b.asked_at) || (a.run < b.run ? -1 : a.run > b.run ? 1 : 0));
}

// draw shows the questions in the section.
export function draw(section, questions, can, { most = 20, linked = true } = {}) {
  const shown = questions.slice(0, most);
  section.hidden = shown.length === 0;
  list(section, shown, (q) => [q.run, q.id, q.asked_at, can.answer].join("\n"), (q) => card(q, can, linked), (node, q) => {
    setText(node.parts.asked, "asked " + age(now() - parse(q.asked_at)) + " ago");
  });
}

function card(q, can, linked) {
  const asked = make("span", { class: "muted" });
  const from = linked ? make("a", { class: "mono", href: href({ run: q.run }), "data-row": true }, q.run) : undefined;
  const refused = q.refused ? make("p", { class: "error" }, "The answer before did not fit: " + q.refused) : undefined;
  const node = make("article", { class: "question", "data-question": q.id },
    make("div", { class: "question-text" }, icon("question"), make("p", {}, q.message || q.id)),
    make("p", { class: "question-from" }, from, make("span", { class: "mono muted" }, q.address), asked, refused));
  node.parts = { asked };
  node.append(can.answer ? form(q, node) : byHand(q));
  return node;
}

// form answers with yes or no at a click, or with what is typed.
function form(q, node) {
  const input = make("input", { type: "text", "aria-label": "Answer", placeholder: "or another answer", autocomplete: "off" });
  const type = make("select", { "aria-label": "The answer is" },
    make("option", { value: "text" }, "as text"), make("option", { value: "json" }, "as JSON"));
  const problem = make("p", { class: "error", role: "alert", hidden: true });
  const buttons = [
    make("button", { type: "button", class: "yes", onclick: () => send(true) }, "Yes"),
    make("button", { type: "button", class: "no", onclick: () => send(false) }, "No"),
  ];
  const typed = make("button", { type: "button", class: "quiet", onclick: () => sendTyped() }, "Send");
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") sendTyped();
  });

  function sendTyped() {
    if (type.value === "text") {
      if (input.value === "") fail("There is no answer yet.");
      else send(input.value);
      return;
    }
    try {
      send(JSON.parse(input.value));
    } catch (error) {
      fail("That is not JSON: " + error.message);
    }
  }

  async function send(value) {
    problem.hidden = true;
    const controls = [...buttons, other, typed, input, type];
    for (const control of controls) control.disabled = true;
    try {
      await post(runPath(q.run) + "/answer", { question: q.id, value });
      node.classList.add("answered");
      controls[0].parentElement.replaceChildren(make("p", { role: "status" }, "Answered. The run goes on."));
    } catch (error) {
      for (const control of controls) control.disabled = false;
      fail(error.message);
    }
  }

  function fail(text) {
    problem.hidden = false;
    setText(problem, text);
  }

  const other = make("button", { type: "button", class: "quiet other", onclick: () => (node.classList.add("typing"), input.focus()) }, "Other…");
  return make("div", { class: "answer" }, ...buttons, other, make("span", { class: "typed" }, input, type, typed), problem);
}

// byHand tells how to answer where the page may not.
function byHand(q) {
  const quote = (text) => (/^[\w./-]+$/.test(text) ? text : "'" + text.replaceAll("'", `'\\''`) + "'");
  return make("p", { class: "byhand" }, "This page may not answer. ", make("code", {}, `reprise answer ${q.run} ${quote(q.id)} true`), " does.");
}
