// Forms for answers, made from the JSON schema of a question. An editor is an element with a
// function that reads what the user entered. The function throws an Error if something is missing
// or cannot be read, and returns undefined if the field was left empty.

import { make } from "./dom.js";
import { isRaw, parse, parseToSend } from "./exact.js";

// resolve follows the references in a schema that was made by package schema.
export function resolve(schema, root) {
  if (schema?.anyOf) return { ...resolve(schema.anyOf[0], root), nullable: true };
  if (schema?.$ref === "#") return root;
  if (schema?.$ref) return root.$defs?.[schema.$ref.replace("#/$defs/", "")] ?? {};
  return schema ?? {};
}

// typeOf returns the only type, apart from null, that a schema allows. It returns undefined if the
// schema allows several types or any type.
export function typeOf(schema) {
  const types = [schema?.type ?? []].flat().filter((name) => name !== "null");
  return types.length === 1 ? types[0] : undefined;
}

export const isNullable = (schema) => Boolean(schema?.nullable || (Array.isArray(schema?.type) && schema.type.includes("null")));

const deepest = 4; // objects and lists nested deeper than this have no fields of their own

// editorOf returns the editor for a schema.
export function editorOf(schema, { root = schema, label = "Answer", required = true, depth = 0, path = "" } = {}) {
  const s = resolve(schema, root);
  const options = { root, label, required, depth, path };
  if (s.enum) return choice(s, options);
  switch (typeOf(s)) {
    case "boolean":
      return choice({ ...s, enum: [true, false] }, options);
    case "string":
      return text(s, options);
    case "integer":
    case "number":
      return number(s, options);
    case "object":
      if (s.properties && depth < deepest) return fields(s, options);
      break;
    case "array":
      if (s.items && depth < deepest) return rows(s, options);
  }
  return json(s, options);
}

// A FieldError is an error in one field of a form.
class FieldError extends Error {
  constructor(control, label, message) {
    super(`${label}: ${message}`);
    Object.assign(this, { control, plain: message });
  }
}

const missing = (control, label) => new FieldError(control, label, "this is needed.");

// showProblem shows an error at the fields that it names, and returns the part of its text that
// belongs to no field. Errors from the server contain one line per problem, with the field's path.
// Without an error, showProblem removes what it has shown.
export function showProblem(form, error) {
  for (const note of form.querySelectorAll(".field-problem")) note.remove();
  for (const control of form.querySelectorAll("[aria-invalid]")) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-describedby");
  }
  if (!error) return "";
  if (error.control) {
    markField(error.control, error.plain);
    error.control.focus();
    return "";
  }
  const rest = [];
  for (const line of error.message.split("\n")) {
    const control = fieldOf(form, line);
    if (control) markField(control, line.slice(line.indexOf(control.dataset.path + ": ") + control.dataset.path.length + 2));
    else rest.push(line);
  }
  form.querySelector("[aria-invalid]")?.focus();
  return rest.join("\n");
}

// fieldOf returns the field whose path is in a line, either at the beginning or after other text
// and a colon.
function fieldOf(form, line) {
  const fields = [...form.querySelectorAll("[data-path]")].filter(({ dataset }) => dataset.path);
  const at = (path) => line.startsWith(path + ": ") || line.includes(": " + path + ": ");
  return fields.filter(({ dataset }) => at(dataset.path)).sort((a, b) => b.dataset.path.length - a.dataset.path.length)[0];
}

let notes = 0; // the number of notes so far, used in their IDs

function markField(control, text) {
  const note = make("span", { class: "field-problem error", role: "alert", id: `field-problem-${++notes}` }, text);
  const target = control.matches("fieldset") ? control.firstElementChild ?? control : control;
  target.after(note);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", note.id);
}

// pathOf returns the path of a member in the form that the server's errors use.
const pathOf = (path, name) => (/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) ? (path ? path + "." : "") + name : `${path}[${JSON.stringify(name)}]`);

// labelled adds a label to a control.
const labelled = (s, { label, required, depth }, control) =>
  make("label", { class: "field" }, make("span", { class: "field-name" }, label + (required ? "" : " (optional)")), control,
    s.description && depth > 0 ? make("span", { class: "muted" }, s.description) : undefined);

// nameOf returns the text for a value of an enumeration.
export const nameOf = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function choice(s, options) {
  const values = s.enum.filter((value) => value !== null);
  const shown = (value) => (value === true ? "yes" : value === false ? "no" : nameOf(value));
  const select = make("select", { "data-path": options.path }, make("option", { value: "" }, "choose…"), ...values.map((value, i) => make("option", { value: String(i) }, shown(value))));
  return {
    node: labelled(s, options, select),
    read() {
      if (select.value !== "") return values[Number(select.value)];
      if (options.required) throw missing(select, options.label);
    },
  };
}

function text(s, options) {
  const hint = s.format === "date-time" ? "2026-01-31T08:00:00Z" : s.contentEncoding === "base64" ? "base64" : undefined;
  const input = make("input", { type: "text", autocomplete: "off", placeholder: hint, "data-path": options.path });
  return {
    node: labelled(s, options, input), input,
    read() {
      if (input.value !== "" || (options.required && options.depth > 0 && !hint)) return input.value;
      if (options.required) throw missing(input, options.label);
    },
  };
}

function number(s, options) {
  const input = make("input", { type: "text", inputmode: "decimal", autocomplete: "off", "data-path": options.path });
  return {
    node: labelled(s, options, input), input,
    read() {
      const said = input.value.trim();
      if (said === "" && !options.required) return undefined;
      if (said === "") throw missing(input, options.label);
      const value = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(said) ? Number(said) : NaN;
      if (!Number.isFinite(value)) throw new FieldError(input, options.label, `${said} is not a number.`);
      if (typeOf(s) !== "integer" || Number.isSafeInteger(value)) return value;
      const exact = /^-?[1-9]\d*$/.test(said) ? parse(said) : undefined;
      if (isRaw(exact)) return exact;
      throw new FieldError(input, options.label, `${said} is not a whole number that this page can send.`);
    },
  };
}

function fields(s, { root, label, required, depth, path }) {
  const editors = Object.entries(s.properties).map(([name, part]) =>
    [name, editorOf(part, { root, label: name, required: s.required?.includes(name) ?? false, depth: depth + 1, path: pathOf(path, name) })]);
  const legend = depth > 0 ? make("legend", {}, label + (required ? "" : " (optional)")) : undefined;
  return {
    node: make("fieldset", { class: "fields", "data-path": path }, legend, ...editors.map(([, editor]) => editor.node)),
    read() {
      if (!required && !editors.some(([, editor]) => isFilled(editor.node))) return undefined;
      const value = {};
      for (const [name, editor] of editors) {
        const part = editor.read();
        if (part !== undefined) value[name] = part;
      }
      return value;
    },
  };
}

const isFilled = (node) => [...node.querySelectorAll("input, select, textarea")].some((control) => control.value !== "");

// rows returns the editor for a list, to which lines can be added and removed.
function rows(s, { root, label, required, depth, path }) {
  const list = make("div", { class: "list-rows" });
  const all = [];
  const add = () => {
    const item = { editor: editorOf(s.items, { root, label: `${label} ${all.length + 1}`, depth: depth + 1, path: `${path}[${all.length}]` }) };
    item.node = make("div", { class: "list-row" }, item.editor.node, make("button", {
      type: "button", class: "quiet", "aria-label": `Remove ${label} ${all.length + 1}`,
      onclick: () => {
        all.splice(all.indexOf(item), 1);
        item.node.remove();
      },
    }, "Remove"));
    all.push(item);
    list.append(item.node);
    item.node.querySelector("input, select, textarea")?.focus();
  };
  const legend = make("legend", {}, label + (required ? "" : " (optional)"));
  return {
    node: make("fieldset", { class: "fields", "data-path": path }, legend, list, make("button", { type: "button", class: "quiet add", "aria-label": `Add to ${label}`, onclick: add }, "Add")),
    read() {
      if (all.length === 0 && !required) return undefined;
      return all.map(({ editor }) => editor.read() ?? null);
    },
  };
}

function json(s, options) {
  const input = make("textarea", { rows: "3", placeholder: "JSON", spellcheck: "false", "data-path": options.path });
  return {
    node: labelled(s, options, input), input,
    read() {
      if (input.value.trim() === "" && !options.required) return undefined;
      if (input.value.trim() === "") throw missing(input, options.label);
      try {
        return parseToSend(input.value);
      } catch (error) {
        throw new FieldError(input, options.label, `that is not JSON: ${error.message}`);
      }
    },
  };
}

// doubtEditor returns the editor for a decision about a call in doubt: the call took effect
// and returned an output, it runs again, or it has failed. If the call has not begun, but
// might repeat an effect, it can take over the effect. schema is the schema of the decision.
export function doubtEditor(schema, effect) {
  const canTakeOver = effect && !effect.in_doubt && !effect.no_output;
  const select = make("select", {}, make("option", { value: "" }, "choose…"),
    canTakeOver ? make("option", { value: "take_over" }, "take the effect over") : undefined,
    make("option", { value: "completed" }, effect ? "take it over, with this output" : "it took effect"),
    make("option", { value: "run_again" }, effect ? "make the call" : "run it again"), make("option", { value: "failed" }, "let it fail"));
  const output = editorOf(schema?.properties?.output ?? {}, { label: "Output of the call", depth: 1 });
  const message = make("input", { type: "text", autocomplete: "off" });
  const why = make("label", { class: "field" }, make("span", { class: "field-name" }, "Why (optional)"), message);
  const show = () => {
    output.node.hidden = select.value !== "completed";
    why.hidden = select.value !== "failed";
  };
  select.addEventListener("change", show);
  show();
  return {
    node: make("fieldset", { class: "fields" }, make("label", { class: "field" }, make("span", { class: "field-name" }, "Decision"), select), output.node, why),
    read() {
      switch (select.value) {
        case "completed":
          return { decision: "completed", output: output.read() };
        case "failed":
          return { decision: "failed", message: message.value };
        case "run_again":
        case "take_over":
          return { decision: select.value };
      }
      throw missing(select, "Decision");
    },
  };
}
