// Prints a run as JSON lines: first the info of the run, then its records. With --value, it prints
// one encoded value, such as an output.
//
//   npm ci && node read.mjs FILE
//   npm ci && node read.mjs --value FILE
//
// Nanoseconds are printed as text, because a JavaScript number cannot represent all of them.

import { readFileSync } from "node:fs";
import { ExtensionCodec, decode as decodeMsgpack } from "@msgpack/msgpack";

const VERSION = 1;

const extensionCodec = new ExtensionCodec();
extensionCodec.register({ type: 0x4a, decode: (body) => JSON.parse(Buffer.from(body)) });
extensionCodec.register({ type: 0x54, decode: zonedTime });
const decode = (bytes) => decodeMsgpack(bytes, { useBigInt64: true, extensionCodec });

// zonedTime returns a time with its offset, as text because a Date has no offset.
function zonedTime(body) {
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  const [nanoseconds, seconds, offset] = [view.getUint32(0), Number(view.getBigInt64(4)), view.getInt32(12)];
  const local = new Date((seconds + offset) * 1000).toISOString().slice(0, 19);
  const pad = (n) => String(n).padStart(2, "0");
  const minutes = Math.abs(offset) / 60;
  return `${local}.${String(nanoseconds).padStart(9, "0")}${offset < 0 ? "-" : "+"}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
}

const base64 = (bytes) => (bytes === null ? null : Buffer.from(bytes).toString("base64"));
const nanoseconds = (n) => (n === null ? null : String(n));
const value = (v) => (v instanceof Uint8Array ? base64(v) : v); // otherwise, an artifact's reference
const mapValues = (object, f) => Object.fromEntries(Object.entries(object).map(([key, v]) => [key, f(v)]));

// portable returns a metadata value in a form that can be represented in JSON.
function portable(v) {
  if (typeof v === "bigint") {
    const n = Number(v);
    return Number.isSafeInteger(n) ? n : String(v);
  }
  if (v === null || typeof v !== "object") return v;
  if (v instanceof Uint8Array) return base64(v);
  if (v instanceof Date) return v.toISOString();
  if (Array.isArray(v)) return v.map(portable);
  return mapValues(v, portable);
}

if (process.argv[2] === "--value") {
  console.log(JSON.stringify(portable(decode(readFileSync(process.argv[3])))));
  process.exit(0);
}

const snapshot = decode(readFileSync(process.argv[2]));
if (snapshot?.format !== "reprise-run") throw new Error("this is not a run of Reprise");
if (snapshot.version > VERSION) throw new Error(`version ${snapshot.version} is newer than ${VERSION}`);

function error(fields) {
  if (fields === null) return null;
  if (fields[0] === 0) {
    const [form, message, type, cls, status, after, sentinels, typed] = fields;
    return {
      form, message, type, class: cls, status, after: nanoseconds(after), sentinels,
      typed: typed.map(([name, v]) => ({ name, value: base64(v) })),
    };
  }
  const [form, reason, message, by, question, local, cause, origin, awaits] = fields;
  return { form, reason, message, by, question, awaits, local, cause: error(cause), ...(origin && { origin }) };
}

function detail(fields) {
  if (fields === null) return null;
  const [hash, input, output, artifact, usage, message, severity, metadata, noStore, branches, unrecorded, , , compensable, whole, cached, answeredBy, , , , awaits, replaces, irreversible, effect, setInFork, signal, toolCall, inputArtifacts, afterReworded, namedCalls] = fields;
  return {
    input_hash: hash === null ? null : Buffer.from(hash).toString("hex"),
    input: base64(input), output: base64(output), artifact, usage, message, severity, metadata: portable(metadata),
    ...(noStore && { no_store: true }),
    ...(branches && { branches }),
    ...(awaits && { awaits }),
    ...(replaces && { replaces }),
    ...(irreversible && { irreversible: true }),
    ...(effect && { effect }),
    ...(setInFork && { set_in_fork: true }),
    ...(signal && { signal }),
    ...(toolCall && { tool_call_id: toolCall }),
    ...(inputArtifacts?.length && { input_artifacts: inputArtifacts }),
    ...(afterReworded && { after_reworded: true }),
    ...(namedCalls?.length && { named_calls: namedCalls }),
    ...(compensable && { compensable: true }),
    ...(cached && { cached: true }),
    ...(answeredBy && { answered_by: answeredBy }),
    ...(whole && { whole_input_hash: Buffer.from(whole).toString("hex") }),
    ...(unrecorded?.length && { unrecorded: unrecorded.map(([address, ordinal, kind, name, hash]) => [address, ordinal, kind, name, Buffer.from(hash ?? []).toString("hex")]) }),
  };
}

function record(fields) {
  const [
    version, seq, time, address, name, kind, status, reason, stage, cls, waiting, attempt, max_attempts,
    will_retry, replayed, duration, elapsed, delay, generation, ordinal, err, det,
  ] = fields;
  if (version !== VERSION) throw new Error(`a record of version ${version}`);
  return {
    seq, time: nanoseconds(time), address, name, kind, status, reason, stage, class: cls, waiting, attempt, max_attempts,
    will_retry, replayed, duration: nanoseconds(duration), elapsed: nanoseconds(elapsed), delay: nanoseconds(delay), generation: Number(generation), ordinal,
    error: error(err), detail: detail(det),
  };
}

const { format, version, records, checksums, ...header } = snapshot;
for (const key of ["created_at", "updated_at", "due_at", "expires_at"]) header[key] = nanoseconds(header[key]);
header.retry = header.retry && JSON.parse(Buffer.from(header.retry));
header.values = mapValues(header.values, value);
header.summary ??= null; // older snapshots have none

for (const line of [header, ...records.map(record)]) console.log(JSON.stringify(line));
