// Preloaded into a server: the process is killed right after it has changed a file, and before
// it says so, if the file named by KILLED is there. Once.
const fs = require("fs");
const promises = require("fs/promises");

for (const name of ["rename", "writeFile"]) {
  const change = promises[name];
  promises[name] = async (...args) => {
    await change(...args);
    if (name === "rename" && fs.existsSync(process.env.KILLED)) {
      fs.unlinkSync(process.env.KILLED);
      process.kill(process.pid, "SIGKILL");
    }
  };
}
