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

const settled = 800; // ms for which a card that appeared or moved takes no click
const stays = 8_000; // ms for which a card that is no longer asked stays at least
const leaves = 60_000; // ms after which it goes, even if the pointer is still there

// What each section shows: a card keeps its place, also when its question was
// answered, so that no other comes under the pointer.
const shownIn = new WeakMap();

// draw shows the questions in the section.
export function draw(section, questions, can, { most = 20, linked = true } = {}) {
  const time = performance.now();
  const open = new Map(questions.map((q) => [[q.run, q.id, q.asked_at, can.answer].join("\n"), q]));
  const cards = (shownIn.get(section) ?? []).filter((card) => open.has(card.key) || !isGone(card, section, time));
  for (const card of cards) {
    if (open.has(card.key)) open.delete(card.key);
    else if (!card.gone) endCard(card, time);
  }
  const room = Math.max(0, most - cards.filter((card) => !card.gone).length);
  for (const [key, q] of [...open].slice(0, room)) cards.push({ key, q, gone: 0 });
  shownIn.set(section, cards);
  section.hidden = cards.length === 0;
  list(section, cards, (card) => card.key, (card) => (card.node = cardOf(card.q, can, linked)), (node, { q }) => {
    setText(node.parts.asked, "asked " + age(now() - parse(q.asked_at)) + " ago");
  });
  drawRest(section, open.size - Math.min(room, open.size));
  watchPlaces(section, cards, time);
}

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

function cardOf(q, can, linked) {
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
  const said = q.message || q.id;
  const input = make("input", { type: "text", "aria-label": "Another answer to: " + said, placeholder: "or another answer", autocomplete: "off" });
  const type = make("select", { "aria-label": "How the answer is read" },
    make("option", { value: "text" }, "as text"), make("option", { value: "json" }, "as JSON"));
  const problem = make("p", { class: "error", role: "alert", hidden: true });
  const buttons = [
    make("button", { type: "button", class: "yes", "aria-label": "Yes: " + said, onclick: (event) => click(event, () => send(true)) }, "Yes"),
    make("button", { type: "button", class: "no", "aria-label": "No: " + said, onclick: (event) => click(event, () => send(false)) }, "No"),
  ];
  const typed = make("button", { type: "button", class: "quiet", "aria-label": "Send the answer to: " + said, onclick: (event) => click(event, sendTyped) }, "Send");
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") sendTyped();
  });

  function click(event, act) {
    if (isMisplaced(node, event)) fail("This question had just moved here. Click again to answer it.");
    else act();
  }

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
