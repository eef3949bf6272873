// The times in records are from the server's clock. now returns the time on that clock.

let ahead = 0; // how far the server's clock is ahead of this machine's, in ms
let certainty = Infinity; // the maximum error of "ahead", in ms

// synchronize adjusts now. server is a time on the server's clock; sent and received are times on
// this machine's clock, one before and one after it.
export function synchronize(server, sent, received) {
  const doubt = (received - sent) / 2;
  const difference = server - (sent + received) / 2;
  // Accept a reading if it is more precise, or if it shows that one of the clocks was set.
  if (doubt <= certainty || Math.abs(difference - ahead) > doubt + certainty) {
    ahead = difference;
    certainty = doubt;
  }
}

export const now = () => Date.now() + ahead;

// parse returns the time in a record in ms. It caches results, because most times occur more than
// once.
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
