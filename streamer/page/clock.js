// The times of records are by the server's clock. Now is too.

let ahead = 0; // how far the server's clock is before this machine's, in ms
let certainty = Infinity; // by how much it may be wrong

// synchronize takes in what the server's clock showed between two times of
// this machine's.
export function synchronize(server, sent, received) {
  const doubt = (received - sent) / 2;
  const difference = server - (sent + received) / 2;
  // A better reading counts, and one that shows that a clock was set.
  if (doubt <= certainty || Math.abs(difference - ahead) > doubt + certainty) {
    ahead = difference;
    certainty = doubt;
  }
}

export const now = () => Date.now() + ahead;

// parse is a time of the wire in ms. Most come again and again.
const parsed = new Map();
export function parse(text) {
  if (!text) return 0;
  let time = parsed.get(text);
  if (time === undefined) {
    if (parsed.size > 5000) parsed.clear();
    parsed.set(text, (time = Date.parse(text)));
  }
  return time;
}
