// Addresses. An address is the path of a call in its run, such as
// assistant@2/group:cities/3/get_weather#2. See record.Address.

const cached = new Map();

// parse splits an address into the call's own segment and the path around it. A group counts as a
// call, and so does each of its branches. A branch's own segment is its number.
//
//   path    the address
//   name    the call's name, without prefix and number
//   nth     the call's number among the calls with the same name
//   parent  the path of the call or group around the call; empty for a root call
//   branch  the branch's number, or 0 if the call is not a branch
//   entry   the attempt of the parent that made the call, from 1; 1 for a compensation; 0 for a call in a precondition
//   depth   the number of calls and groups around the call
export function parse(path) {
  let a = cached.get(path);
  if (a === undefined) {
    if (cached.size > 20_000) cached.clear();
    cached.set(path, (a = split(path)));
  }
  return a;
}

function split(path) {
  const segments = path.split("/");
  const own = segments.pop();
  const branch = segments.length > 0 && isGroup(segments.at(-1)) ? Number.parseInt(own, 10) || 0 : 0;
  const around = segments.pop();
  let parent = "";
  let entry = 1;
  if (around !== undefined) {
    const [bare, attempt] = around.split("@");
    if (attempt !== undefined) entry = attempt.startsWith("pre") ? 0 : attempt === "undo" ? 1 : Number(attempt);
    parent = [...segments, bare].join("/");
  }
  const [label, nth] = own.split("#");
  return {
    path, parent, branch, entry,
    name: unescape(label.replace(/^(step|group):/, "")),
    nth: nth === undefined ? 1 : Number(nth),
    group: isGroup(own),
    depth: parent === "" ? 0 : parse(parent).depth + 1,
  };
}

const isGroup = (segment) => segment.startsWith("group:");

function unescape(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
