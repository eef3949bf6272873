// Questions to people, with forms for answering them if the user is allowed to.

import * as alike from "./alike.js";
import { isAnsweredHere, markAnswered } from "./answered.js";
import { answerForm } from "./answerform.js";
import { before as whatWasBefore } from "./before.js";
import { make, list, setHidden, setText, icon } from "./dom.js";
import { now, parse } from "./clock.js";
import * as fold from "./fold.js";
import { byCommand } from "./continue.js";
import { age, duration, escaped, fullTime, kind, plural } from "./format.js";
import { foldButton } from "./panels.js";
import { post, runPath } from "./request.js";
import { href } from "./route.js";
import * as who from "./who.js";

// questionsOf returns the open questions of the runs, the oldest first.
export function questionsOf(runs) {
  const all = [];
  for (const run of runs) {
    for (const question of fold.questionsOf(run)) if (!question.answered) all.push({ run: run.run_id, ...question });
  }
  return all.sort((a, b) => parse(a.asked_at) - parse(b.asked_at) || (a.run < b.run ? -1 : a.run > b.run ? 1 : 0));
}

const settled = 800; // the time in ms for which a card that appeared or moved ignores clicks
const stays = 8_000; // the minimum time in ms for which the card of a closed question stays
const leaves = 60_000; // ms after which the card is removed even if the pointer is still on it

// The cards in each section. A card keeps its position even after its question was answered, so
// that no other card moves under the pointer.
const shownIn = new WeakMap();

// draw shows the questions in the section. all contains every open question, including those for
// which the section has no room.
export function draw(section, questions, can, { all = questions, most = 20, more = 0, unknown = 0, linked = true, runOf } = {}) {
  const time = performance.now();
  const open = new Map(questions.map((q) => [[q.run, q.id, q.asked_at, can.answer, isAnsweredElsewhere(q)].join("\n"), q]));
  const cards = (shownIn.get(section) ?? []).filter((card) => open.has(card.key) || !isGone(card, section, time));
  for (const card of cards) {
    if (open.has(card.key)) open.delete(card.key);
    else if (!card.gone) endCard(card, time);
  }
  for (const [key, q] of open) if (isAnsweredHere(q)) open.delete(key); // answered together with similar questions
  // Cards that were answered on this page stay until a program has taken the answer, but do not
  // count.
  const room = Math.max(0, most - cards.filter((card) => !card.gone && !isAnsweredHere(card.q)).length);
  for (const [key, q] of [...open].slice(0, room)) cards.push({ key, q, gone: 0 });
  shownIn.set(section, cards);
  watchSize(section);
  section.hidden = cards.length === 0;
  drawHead(section, all, can, unknown);
  list(section, cards, (card) => card.key, (card) => (card.node = cardOf(card.q, can, linked, runOf)), (node, { q }) => {
    if (!node.answered && isAnsweredHere(q)) node.querySelector(".answer").replaceWith(answeredBefore(q, node, runOf));
    if (node.answered) setText(node.answered.text, afterAnswer(q, node.answered.before, runOf?.(q.run)));
    drawTimes(node.parts, q);
  });
  drawRest(section, more + open.size - Math.min(room, open.size));
  watchPlaces(section, cards, time);
}

// drawHead draws what is above the cards: the number of questions, the name under which the
// user answers, and the groups of similar questions. unknown is the number of runs whose
// questions are not loaded.
function drawHead(section, questions, can, unknown) {
  const head = section.previousElementSibling;
  setHidden(head, section.hidden);
  if (!head.firstChild) {
    head.append(make("div", {}, foldButton(section, "questions", "questions"), make("h2", {}, "Questions"), make("span", { class: "count" }), make("span", { class: "spacer" }), make("span", { class: "as" })),
      make("ul", { class: "alike", "aria-label": "Questions that are alike" }));
  }
  const open = questions.filter((q) => !q.answered && !isAnsweredHere(q));
  setText(head.querySelector(".count"), String(open.length) + (unknown > 0 ? ` and those of ${plural(unknown, "more run")}` : ""));
  if (can.answer) who.fill(head.querySelector(".as"), "You answer");
  alike.draw(head.lastChild, open, can);
}

// drawTimes shows when a question was asked and how long it waits for an answer.
function drawTimes({ asked, until }, q) {
  setText(asked, "asked " + age(now() - parse(q.asked_at)) + " ago");
  asked.title = fullTime(parse(q.asked_at));
  const end = parse(q.due_at);
  if (!end) return setText(until, "waits until it is answered");
  const left = end - now();
  setText(until, left > 0 ? `answered by default in ${duration(left)}` : "answered by default now");
  until.title = fullTime(end);
}

// isAnsweredElsewhere reports whether there is an answer that this page did not send.
const isAnsweredElsewhere = (q) => Boolean(q.answered) && !isAnsweredHere(q);

// drop removes all cards.
export function drop(section) {
  section.previousElementSibling.replaceChildren();
  setHidden(section.previousElementSibling, true);
  shownIn.delete(section);
  list(section, []);
  section.querySelector(".more")?.remove();
  section.hidden = true;
}

// endCard shows that a card's question is no longer asked.
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

// drawRest shows the number of questions that have no card yet.
function drawRest(section, n) {
  let rest = section.querySelector(":scope > .more");
  if (n > 0 && !rest) section.append((rest = make("p", { class: "more" })));
  if (rest && n <= 0) rest.remove();
  else if (rest) setText(rest, `${n} more ${n === 1 ? "question" : "questions"} below these.`);
  if (rest?.isConnected && rest !== section.lastElementChild) section.append(rest);
}

// watchPlaces records which cards have moved or are new, so that a click that was meant for
// something else does not answer them.
function watchPlaces(section, cards, time) {
  for (const { node } of cards) watchPlace(section, node, time);
}

// watchSize records when cards move because another card has changed its size, for example when
// that card was answered.
function watchSize(section) {
  if (sized.has(section)) return;
  sized.add(section);
  new ResizeObserver(() => watchPlaces(section, shownIn.get(section) ?? [], performance.now())).observe(section);
}

const sized = new WeakSet(); // the sections whose sizes are watched

function watchPlace(section, node, time) {
  const place = section.getBoundingClientRect().top + scrollY + node.offsetTop;
  if (node.place === undefined || Math.abs(place - node.place) > 2) node.movedAt = time;
  node.place = place;
}

// isMisplaced reports whether a click on the card may have been meant for something else. It
// returns false if the event was caused by a key.
function isMisplaced(node, event) {
  if (event.detail === 0) return false;
  const time = performance.now();
  watchPlace(node.parentElement, node, time); // the card may have moved since it was drawn
  return time - node.movedAt < settled;
}

function cardOf(q, can, linked, runOf) {
  const asked = make("span", { class: "muted" });
  const until = make("span", { class: "muted" });
  const may = make("span", { class: "muted" }, can.answer ? (can.as ? `you may answer, ${can.as}` : "you may answer") : "");
  const from = linked ? make("a", { class: "mono", href: href({ run: q.run }), "data-row": true }, q.run) : undefined;
  const refused = q.refused ? make("p", { class: "error" }, "The previous answer did not fit: " + escaped(q.refused)) : undefined;
  const node = make("article", { class: "question", "data-question": q.id },
    make("div", { class: "question-text" }, icon("question"), make("p", { dir: "auto" }, escaped(q.message || q.id))),
    make("div", { class: "question-from" }, from, make("span", { class: "mono muted" }, q.address), asked, until, may, refused, whatWasBefore(q)),
    q.in_doubt ? doubt(q.in_doubt) : undefined);
  node.parts = { asked, until };
  drawTimes(node.parts, q);
  node.append(q.answered ? answeredBefore(q, node, runOf) : can.answer ? form(q, node, runOf) : byHand(q));
  return node;
}

// answeredBefore shows that the question has an answer that no program has taken yet.
function answeredBefore(q, node, runOf) {
  const run = runOf?.(q.run);
  node.classList.add("answered");
  node.answered = { before: standingOf(run), text: make("p", { role: "status" }) };
  setText(node.answered.text, afterAnswer(q, node.answered.before, run));
  return make("div", { class: "answer" }, node.answered.text);
}

// doubt describes a call in doubt.
function doubt(call) {
  const began = parse(call.began_at);
  const effect = call.effect && `might repeat ${call.effect.address}${call.effect.run_id ? " of run " + call.effect.run_id : ""}`;
  const facts = [`${kind(call.event_type)} ${call.name}`, effect ?? `${plural(call.starts, "attempt")} begun`, began ? "the last at " + fullTime(began) : ""];
  return make("p", { class: "question-from doubt" }, make("span", {}, facts.filter(Boolean).join(", ")),
    call.cause ? make("span", {}, "the attempt ended with: " + escaped(call.cause)) : undefined,
    call.input ? make("span", { class: "mono" }, "input " + escaped(call.input)) : undefined,
    call.idempotency_key ? make("span", { class: "mono" }, "idempotency key " + escaped(call.idempotency_key)) : undefined);
}

// form returns the form for answering the question on a card.
function form(q, node, runOf) {
  const made = answerForm(q, {
    label: escaped(q.message || q.id),
    refuseClick: (event) => isMisplaced(node, event) && "This question had just moved here. Click again to answer it.",
    onOther: () => node.classList.add("typing"),
    async send(value) {
      const before = standingOf(runOf?.(q.run));
      await post(runPath(q.run) + "/answer", who.signed({ question: q.id, value }));
      markAnswered(q);
      node.classList.add("answered");
      node.answered = { before, text: make("p", { role: "status" }, "Answered.") };
      node.querySelector(".answer").replaceChildren(node.answered.text);
      node.classList.remove("wide");
    },
  });
  if (made.querySelector("fieldset, textarea")) node.classList.add("wide");
  return made;
}

// standingOf returns what afterAnswer needs to know about a run to tell whether a program has
// continued it.
const standingOf = (run) => ({ status: run?.status, openings: run?.openings ?? 0 });

// afterAnswer returns a text about whether a program is continuing the run.
function afterAnswer(q, before, run) {
  if (!run) return "Answered.";
  const now = standingOf(run);
  if (now.openings > before.openings || (before.status !== "running" && now.status === "running")) return "Answered. A program continues the run.";
  if (fold.isSettled(run)) return `Answered. The run is ${run.status}.`;
  const open = fold.questionsOf(run).filter((question) => !question.answered && !isAnsweredHere({ ...question, run: q.run })).length;
  if (open > 0 && run.status === "paused") return `Answered. The run waits for ${plural(open, "more answer")}.`;
  if (now.status === "running") return "Answered. A program has the run open; the call continues when the program resumes it.";
  return "Answered. No program has continued the run yet; it continues when one resumes it.";
}

// byHand shows the command for answering a question. It is for pages that are not allowed to
// answer.
const byHand = (q) => make("p", { class: "byhand commands" }, ...byCommand("You cannot answer here.", ["reprise", "answer", q.run, q.id, "true"]));
