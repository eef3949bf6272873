// JSON whose integers stay exact. A number in JavaScript holds integers only up to 2^53, so that a
// long ID would be changed. Such an integer becomes a raw number, which JSON.stringify writes as it
// was read.

const isSupported = typeof JSON.rawJSON === "function";
const long = /\d{16}/; // an integer that is not exact has at least as many digits

// isRaw reports whether a value is a raw number. Its digits are in the property rawJSON.
export const isRaw = (value) => isSupported && JSON.isRawJSON(value);

const isInexact = (value) => typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);

// parse is like JSON.parse. In a browser without raw numbers, long integers are changed.
export function parse(text) {
  if (!isSupported || !long.test(text)) return JSON.parse(text);
  return JSON.parse(text, (key, value, { source }) => (isInexact(value) ? JSON.rawJSON(source) : value));
}

// parseToSend is like parse, but throws an error in a browser that would change an integer.
export function parseToSend(text) {
  if (isSupported) return parse(text);
  return JSON.parse(text, (key, value) => {
    if (isInexact(value)) throw new Error(`it has the integer ${value}, which this browser cannot send.`);
    return value;
  });
}
