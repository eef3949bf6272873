// Questions to a human: prominent, and where it is allowed with the means to
// answer them.

import { doubtEditor, editorOf, isNullable, typeOf } from "./answers.js";
import { make, list, setText, icon } from "./dom.js";
import { now, parse } from "./clock.js";
import * as fold from "./fold.js";
import { age, escaped, fullTime, kind, plural } from "./format.js";
import { post, runPath } from "./request.js";
import { href } from "./route.js";

// questionsOf collects what the runs ask and nobody has answered, the oldest question
// first.
export function questionsOf(runs) {
  const all = [];
  for (const run of runs) {
    for (const question of run.questions) if (!question.answered) all.push({ run: run.run_id, ...question });
  }
  return all.sort((a, b) => parse(a.asked_at) - parse(b.asked_at) || (a.run < b.run ? -1 : a.run > b.run ? 1 : 0));
}

const settled = 800; // ms for which a card that appeared or moved takes no click
const stays = 8_000; // ms for which a card that is no longer asked stays at least
const leaves = 60_000; // ms after which it goes, even if the pointer is still there

// What each section shows: a card keeps its place, also when its question was
// answered, so that no other comes under the pointer.
const shownIn = new WeakMap();

// draw shows the questions in the section.
export function draw(section, questions, can, { most = 20, more = 0, linked = true, runOf } = {}) {
  const time = performance.now();
  const open = new Map(questions.map((q) => [[q.run, q.id, q.asked_at, can.answer, isAnsweredElsewhere(q)].join("\n"), q]));
  const cards = (shownIn.get(section) ?? []).filter((card) => open.has(card.key) || !isGone(card, section, time));
  for (const card of cards) {
    if (open.has(card.key)) open.delete(card.key);
    else if (!card.gone) endCard(card, time);
  }
  const room = Math.max(0, most - cards.filter((card) => !card.gone).length);
  for (const [key, q] of [...open].slice(0, room)) cards.push({ key, q, gone: 0 });
  shownIn.set(section, cards);
  section.hidden = cards.length === 0;
  list(section, cards, (card) => card.key, (card) => (card.node = cardOf(card.q, can, linked, runOf)), (node, { q }) => {
    if (node.answered) setText(node.answered.text, afterAnswer(q, node.answered.before, runOf?.(q.run)));
    setText(node.parts.asked, "asked " + age(now() - parse(q.asked_at)) + " ago");
  });
  drawRest(section, more + open.size - Math.min(room, open.size));
  watchPlaces(section, cards, time);
}

// Questions that were answered here. They stay open in their runs until a program
// has taken the answer.
const answeredHere = new Set();

// isAnsweredElsewhere reports whether there is an answer that this page did not send.
const isAnsweredElsewhere = (q) => Boolean(q.answered) && !answeredHere.has(keyOf(q.run, q));

const keyOf = (run, question) => [run, question.id, question.asked_at].join("\n");

// drop takes all cards off the page.
export function drop(section) {
  shownIn.delete(section);
  list(section, []);
  section.querySelector(".more")?.remove();
  section.hidden = true;
}

// endCard shows that a question is no longer asked.
function endCard(card, time) {
  card.gone = time;
  if (card.node.classList.contains("answered")) return;
  card.node.classList.add("answered");
  card.node.querySelector(".answer, .byhand")?.replaceChildren(make("p", { role: "status" }, "No longer asked."));
}

function isGone(card, section, time) {
  if (!card.gone) return false;
  const pointed = section.matches(":hover") || section.contains(document.activeElement);
  return time - card.gone > (pointed ? leaves : stays);
}

// drawRest counts the questions that have no card yet.
function drawRest(section, n) {
  let rest = section.querySelector(":scope > .more");
  if (n > 0 && !rest) section.append((rest = make("p", { class: "more" })));
  if (rest && n <= 0) rest.remove();
  else if (rest) setText(rest, `${n} more ${n === 1 ? "question" : "questions"} below these.`);
  if (rest?.isConnected && rest !== section.lastElementChild) section.append(rest);
}

// watchPlaces notes which cards have moved, or are new: a click that was meant
// for what was there before must not answer them.
function watchPlaces(section, cards, time) {
  for (const { node } of cards) watchPlace(section, node, time);
}

function watchPlace(section, node, time) {
  const place = section.getBoundingClientRect().top + scrollY + node.offsetTop;
  if (node.place === undefined || Math.abs(place - node.place) > 2) node.movedAt = time;
  node.place = place;
}

// isMisplaced reports whether a click on the card may have been meant for
// something else. A key is not pressed at a place.
function isMisplaced(node, event) {
  if (event.detail === 0) return false;
  const time = performance.now();
  watchPlace(node.parentElement, node, time); // it may have moved since it was drawn
  return time - node.movedAt < settled;
}

function cardOf(q, can, linked, runOf) {
  const asked = make("span", { class: "muted" });
  const from = linked ? make("a", { class: "mono", href: href({ run: q.run }), "data-row": true }, q.run) : undefined;
  const refused = q.refused ? make("p", { class: "error" }, "The answer before did not fit: " + escaped(q.refused)) : undefined;
  const node = make("article", { class: "question", "data-question": q.id },
    make("div", { class: "question-text" }, icon("question"), make("p", {}, escaped(q.message || q.id))),
    make("p", { class: "question-from" }, from, make("span", { class: "mono muted" }, q.address), asked, refused),
    q.in_doubt ? doubt(q.in_doubt) : undefined);
  node.parts = { asked };
  node.append(q.answered ? answeredBefore(q, node, runOf) : can.answer ? form(q, node, runOf) : byHand(q));
  return node;
}

// answeredBefore says that there is an answer, which no program has taken yet.
function answeredBefore(q, node, runOf) {
  const run = runOf?.(q.run);
  node.classList.add("answered");
  node.answered = { before: standingOf(run), text: make("p", { role: "status" }) };
  setText(node.answered.text, afterAnswer(q, node.answered.before, run));
  return make("div", { class: "answer" }, node.answered.text);
}

// doubt says what a call in doubt was.
function doubt(call) {
  const began = parse(call.began_at);
  const effect = call.effect && `might repeat ${call.effect.address}${call.effect.run_id ? " of run " + call.effect.run_id : ""}`;
  const facts = [`${kind(call.event_type)} ${call.name}`, effect ?? `${plural(call.starts, "attempt")} begun`, began ? "the last at " + fullTime(began) : ""];
  return make("p", { class: "question-from doubt" }, make("span", {}, facts.filter(Boolean).join(", ")),
    call.input ? make("span", { class: "mono" }, "input " + escaped(call.input)) : undefined);
}

// form is what answers a question, by its schema: buttons for a truth value and
// for a choice of few, fields for the rest; without a schema, whatever is typed.
function form(q, node, runOf) {
  const said = escaped(q.message || q.id);
  const problem = make("p", { class: "error", role: "alert", hidden: true });
  const schema = q.schema;
  const controls = [];
  const button = (text, name, label, act) => {
    const made = make("button", { type: "button", class: name, "aria-label": `${label}: ${said}`, onclick: (event) => click(event, act) }, text);
    controls.push(made);
    return made;
  };

  function click(event, act) {
    if (isMisplaced(node, event)) fail("This question had just moved here. Click again to answer it.");
    else act();
  }

  async function send(value) {
    problem.hidden = true;
    const all = [...controls, ...(controls[0]?.closest(".answer") ?? node).querySelectorAll("input, select, textarea, button")];
    for (const control of all) control.disabled = true;
    const before = standingOf(runOf?.(q.run));
    try {
      await post(runPath(q.run) + "/answer", { question: q.id, value });
      answeredHere.add(keyOf(q.run, q));
      node.classList.add("answered");
      node.answered = { before, text: make("p", { role: "status" }, "Answered.") };
      node.querySelector(".answer").replaceChildren(node.answered.text);
      node.classList.remove("wide");
    } catch (error) {
      for (const control of all) control.disabled = false;
      fail(error.message);
    }
  }

  function fail(text) {
    problem.hidden = false;
    setText(problem, text);
  }

  function sendRead(editor) {
    let value;
    try {
      value = editor.read();
    } catch (error) {
      fail(error.message);
      return;
    }
    if (value === undefined) value = null;
    send(value);
  }

  const answer = (...children) => make("div", { class: "answer" }, ...children, problem);
  if (!schema && !q.in_doubt) return answer(...untyped({ said, button, controls, node, send, fail }));
  const type = typeOf(schema);
  if (!q.in_doubt && type === "boolean" && !isNullable(schema)) {
    return answer(button("Yes", "yes", "Yes", () => send(true)), button("No", "no", "No", () => send(false)));
  }
  if (!q.in_doubt && schema.enum && schema.enum.length <= 6 && !schema.enum.includes(null)) {
    return answer(...schema.enum.map((value) => button(String(value), "choice", String(value), () => send(value))));
  }
  const editor = q.in_doubt ? doubtEditor(schema, q.in_doubt.effect) : editorOf(schema, { required: !isNullable(schema) });
  editor.input?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && editor.input.tagName === "INPUT") sendRead(editor);
  });
  const made = answer(editor.node, button("Send", "send", "Send the answer to", () => sendRead(editor)));
  if (editor.node.matches("fieldset") || editor.input?.tagName === "TEXTAREA") node.classList.add("wide");
  return made;
}

// untyped answers a question that says nothing of what it takes: with yes or no
// at a click, or with what is typed.
function untyped({ said, button, controls, node, send, fail }) {
  const input = make("input", { type: "text", "aria-label": "Another answer to: " + said, placeholder: "or another answer", autocomplete: "off" });
  const type = make("select", { "aria-label": "How the answer is read" },
    make("option", { value: "text" }, "as text"), make("option", { value: "json" }, "as JSON"));
  const sendTyped = () => {
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
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") sendTyped();
  });
  const buttons = [button("Yes", "yes", "Yes", () => send(true)), button("No", "no", "No", () => send(false))];
  const typed = button("Send", "quiet", "Send the answer to", sendTyped);
  const other = make("button", { type: "button", class: "quiet other", onclick: () => (node.classList.add("typing"), input.focus()) }, "Other…");
  controls.push(input, type, other);
  return [...buttons, other, make("span", { class: "typed" }, input, type, typed)];
}

// standingOf is what tells later whether a program has gone on with a run.
const standingOf = (run) => ({ status: run?.status, openings: run?.openings ?? 0 });

// afterAnswer says whether somebody goes on with the run.
function afterAnswer(q, before, run) {
  if (!run) return "Answered.";
  const now = standingOf(run);
  if (now.openings > before.openings || (before.status !== "running" && now.status === "running")) return "Answered. A program goes on with the run.";
  if (fold.isSettled(run)) return `Answered. The run is ${run.status}.`;
  const open = run.questions.filter((question) => !question.answered && !answeredHere.has(keyOf(q.run, question))).length;
  if (open > 0 && run.status === "paused") return `Answered. The run waits for ${plural(open, "more answer")}.`;
  if (now.status === "running") return "Answered. A program has the run open; the call goes on when that resumes it.";
  return "Answered. No program has gone on with the run yet: it goes on when one resumes it.";
}

// byHand tells how to answer where the page may not.
function byHand(q) {
  const quote = (text) => (/^[\w./-]+$/.test(text) ? text : "'" + text.replaceAll("'", `'\\''`) + "'");
  return make("p", { class: "byhand" }, "This page may not answer. ", make("code", {}, `reprise answer ${q.run} ${quote(q.id)} true`), " does.");
}
