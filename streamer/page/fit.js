// Compares a value with its JSON schema, in a table that shows, for each field, the wanted type,
// the returned value, and whether the value fits.

import { resolve } from "./answers.js";
import { make } from "./dom.js";
import { isRaw } from "./exact.js";
import { escaped } from "./format.js";

const mostRows = 500;
const mostText = 200; // characters of a value

// fit returns a table that compares the fields of a value with its schema.
export function fit(value, schema) {
  const rows = [];
  visit("", value, schema, schema, true, rows);
  const wrong = rows.filter(({ problem }) => problem).length;
  return make("section", { class: "fit" },
    make("h3", {}, "Against its schema"),
    make("p", { class: wrong ? "error" : "muted" }, wrong ? `${wrong} of ${rows.length} fields do not fit.` : "All fields fit."),
    make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "The fields of the schema" },
      make("table", {}, make("thead", {}, make("tr", {}, ...["Field", "Wanted", "Returned", ""].map((text) => make("th", { scope: "col" }, text || make("span", { class: "hidden-text" }, "Whether it fits"))))),
        make("tbody", {}, ...rows.slice(0, mostRows).map(row)))),
    rows.length > mostRows ? make("p", { class: "muted" }, `and ${rows.length - mostRows} more`) : undefined);
}

const row = ({ path, wanted, returned, problem }) =>
  make("tr", { class: problem ? "unfit" : undefined }, make("th", { scope: "row", class: "mono" }, escaped(path || "(all of it)")), make("td", {}, escaped(wanted)),
    make("td", { class: "mono" }, returned === undefined ? "–" : escaped(returned)), make("td", {}, problem ? make("span", { class: "error" }, escaped(problem)) : "fits"));

function visit(path, value, schema, root, required, rows) {
  const s = resolve(schema, root);
  const problem = problemOf(value, s, required);
  const nested = !problem && value !== null && typeof value === "object" && !isRaw(value);
  if (!nested || !(s.properties || s.items)) {
    rows.push({ path, wanted: wantedOf(s, required), returned: value === undefined ? undefined : brief(value), problem });
    return;
  }
  if (Array.isArray(value)) {
    rows.push({ path, wanted: wantedOf(s, required), returned: `[${value.length}]` });
    for (const [i, item] of value.entries()) if (rows.length <= mostRows) visit(`${path}[${i}]`, item, s.items, root, true, rows);
    return;
  }
  for (const [name, inside] of Object.entries(s.properties ?? {})) {
    if (rows.length <= mostRows) visit(path ? `${path}.${name}` : name, value[name], inside, root, Boolean(s.required?.includes(name)), rows);
  }
  for (const name of Object.keys(value)) {
    if (s.properties && name in s.properties) continue;
    const of = typeof s.additionalProperties === "object" ? s.additionalProperties : {};
    if (s.additionalProperties !== false) visit(path ? `${path}.${name}` : name, value[name], of, root, false, rows);
    else rows.push({ path: path ? `${path}.${name}` : name, wanted: "", returned: brief(value[name]), problem: "not in the schema" });
  }
}

const typesOf = (s) => [s.type ?? []].flat();

function problemOf(value, s, required) {
  if (value === undefined) return required ? "missing" : "";
  if (isRaw(value)) return problemOf(Number(value.rawJSON), s, required);
  const types = typesOf(s);
  const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  if (type === "null" && (s.nullable || types.length === 0)) return "";
  const isOf = (wanted) => wanted === type || (type === "number" && (wanted === "number" || (wanted === "integer" && Number.isInteger(value))));
  if (types.length > 0 && !types.some(isOf)) return `got ${article(type)}, want ${types.map(article).join(" or ")}`;
  if (s.enum && !s.enum.some((one) => JSON.stringify(one) === JSON.stringify(value))) return `want one of ${s.enum.map((one) => JSON.stringify(one)).join(", ")}`;
  if (typeof value === "number" && (value < s.minimum || value > s.maximum)) return `want ${s.minimum ?? "−∞"} to ${s.maximum ?? "∞"}`;
  return "";
}

const article = (type) => (type === "null" ? "null" : `${/^[aio]/.test(type) ? "an" : "a"} ${type}`);

const wantedOf = (s, required) =>
  [typesOf(s).filter((type) => type !== "null").join(" or ") || "anything", s.enum && "one of " + s.enum.map((one) => JSON.stringify(one)).join(", "), required ? "" : "optional", s.description].filter(Boolean).join(", ");

function brief(value) {
  const text = JSON.stringify(value);
  return text.length > mostText ? text.slice(0, mostText) + "…" : text;
}
