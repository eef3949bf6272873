// Questions that were answered on this page. They stay open in their runs until a program has taken
// the answers.

const answered = new Set();

const keyOf = (q) => [q.run, q.id, q.asked_at].join("\n");

// markAnswered remembers that this page has answered a question of a run.
export const markAnswered = (q) => answered.add(keyOf(q));

export const isAnsweredHere = (q) => answered.has(keyOf(q));
