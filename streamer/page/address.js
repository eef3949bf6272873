// Addresses: the path of a call in its run, such as
// assistant@2/group:cities/3/get_weather#2. See core.Address.

const cached = new Map();

// parse splits an address into its own segment and its surroundings. A group counts
// as a call, and so does each of its branches, whose own segment is its number.
//
//   path    the address
//   name    of the call, without prefix and number
//   nth     the number of the call among those of that name
//   parent  the path of the call or group around it, empty for a root call
//   branch  the number of the branch, or 0 if it is not a branch
//   entry   the attempt of the parent that made the call, from 1; the same for its compensation; 0 for a precondition
//   depth   the number of calls and groups around it
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
