// The form that answers one question, or a group of similar questions.

import { doubtEditor, editorOf, isNullable, nameOf, showProblem, typeOf } from "./answers.js";
import { make, setText } from "./dom.js";
import { parseToSend } from "./exact.js";

// answerForm returns the form that answers a question: buttons if the schema is a boolean, an
// approval, or a choice of a few values, fields for any other schema, and a text field if there is
// no schema. label names the question. send sends a value; if its result has again set, the form
// can be used again. refuseClick may return the reason for ignoring a click.
export function answerForm(q, { label, send, refuseClick = () => undefined, onOther = () => undefined }) {
  const problem = make("p", { class: "error", role: "alert", hidden: true });
  const form = make("div", { class: "answer" });
  const schema = q.schema;
  const button = (text, name, title, act) =>
    make("button", { type: "button", class: name, "aria-label": `${title}: ${label}`, onclick: (event) => click(event, act) }, text);

  function click(event, act) {
    const why = refuseClick(event);
    if (why) fail(new Error(why));
    else act();
  }

  async function give(value) {
    clear();
    const controls = [...form.querySelectorAll("input, select, textarea, button")];
    for (const control of controls) control.disabled = true;
    try {
      const result = await send(value);
      if (!result?.again) return;
    } catch (error) {
      fail(error);
    }
    for (const control of controls) control.disabled = false;
  }

  function clear() {
    problem.hidden = true;
    showProblem(form);
  }

  // fail shows an error, next to the field that it belongs to if there is one.
  function fail(error) {
    clear();
    const rest = showProblem(form, error);
    if (form.querySelector("details [aria-invalid]")) form.querySelector("details").open = true;
    problem.hidden = !rest;
    setText(problem, rest);
  }

  function giveRead(editor) {
    clear();
    let value;
    try {
      value = editor.read();
    } catch (error) {
      fail(error);
      return;
    }
    give(value === undefined ? null : value);
  }

  function fill(...children) {
    form.append(...children, problem);
    return form;
  }
  if (!schema && !q.in_doubt) return fill(...untyped({ label, button, give, fail, onOther }));
  const type = typeOf(schema);
  if (!q.in_doubt && type === "boolean" && !isNullable(schema)) {
    return fill(button("Yes", "yes", "Yes", () => give(true)), button("No", "no", "No", () => give(false)));
  }
  if (!q.in_doubt && schema.enum && schema.enum.length <= 6 && !schema.enum.includes(null)) {
    return fill(...schema.enum.map((value) => button(nameOf(value), "choice", nameOf(value), () => give(value))));
  }
  if (!q.in_doubt && isApproval(schema)) {
    const details = detailsOf(q);
    const decide = (approved) => giveRead({ read: () => ({ approved, ...details?.read() }) });
    return fill(button("Approve", "yes", "Approve", () => decide(true)), button("Refuse", "no", "Refuse", () => decide(false)), ...(details ? [details.node] : []));
  }
  const editor = q.in_doubt ? doubtEditor(schema, q.in_doubt.effect) : editorOf(schema, { required: !isNullable(schema) });
  editor.input?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && editor.input.tagName === "INPUT") giveRead(editor);
  });
  return fill(editor.node, button("Send", "send", "Send the answer to", () => giveRead(editor)));
}

// isApproval reports whether the answers are approvals: only the boolean approved is required.
const isApproval = (schema) =>
  typeOf(schema) === "object" && !isNullable(schema) && typeOf(schema.properties?.approved) === "boolean" && (schema.required ?? []).every((name) => name === "approved");

// detailsOf returns the editor for what an approval may contain besides the decision, or undefined
// if there is nothing else. The arguments to approve can be edited, and are sent if they were
// changed.
function detailsOf(q) {
  const { approved, ...properties } = q.schema.properties;
  if (Object.keys(properties).length === 0) return undefined;
  // There is a single field for all arguments. It shows their current values and keeps those that
  // nobody edits.
  if (properties.arguments) properties.arguments = { description: properties.arguments.description };
  const editor = editorOf({ type: "object", properties }, { root: q.schema, required: false });
  const input = editor.node.querySelector('textarea[data-path="arguments"]');
  const present = input ? argumentsOf(q) : "";
  if (present) {
    input.value = present;
    input.rows = 4;
  }
  return {
    node: make("details", {}, make("summary", {}, "With " + Object.keys(properties).join(" or ")), editor.node),
    read() {
      const value = editor.read();
      if (present && input.value === present) delete value.arguments;
      return value;
    },
  };
}

// argumentsOf returns the arguments as they appear in the default question of an approval. It
// returns "" if there are none or they are truncated, and also if the question is redacted, because
// redacted arguments must not be sent back.
function argumentsOf({ message, redacted }) {
  if (redacted) return "";
  const text = /^Approve \S+ (\{.*\})$/s.exec(message ?? "")?.[1] ?? "";
  try {
    JSON.parse(text);
  } catch {
    return "";
  }
  return text;
}

// untyped returns the form for a question without a schema: buttons for yes and no,
// and a text field.
function untyped({ label, button, give, fail, onOther }) {
  const input = make("input", { type: "text", "aria-label": "Another answer to: " + label, placeholder: "or another answer", autocomplete: "off" });
  const type = make("select", { "aria-label": "How the answer is read" },
    make("option", { value: "text" }, "as text"), make("option", { value: "json" }, "as JSON"));
  const giveTyped = () => {
    if (type.value === "text") {
      if (input.value === "") fail(new Error("Enter an answer first."));
      else give(input.value);
      return;
    }
    let value;
    try {
      value = parseToSend(input.value);
    } catch (error) {
      fail(new Error("That is not JSON: " + error.message));
      return;
    }
    give(value);
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") giveTyped();
  });
  const buttons = [button("Yes", "yes", "Yes", () => give(true)), button("No", "no", "No", () => give(false))];
  const typed = button("Send", "quiet", "Send the answer to", giveTyped);
  const other = make("button", { type: "button", class: "quiet other", onclick: () => (onOther(), input.focus()) }, "Other…");
  return [...buttons, other, make("span", { class: "typed" }, input, type, typed)];
}
