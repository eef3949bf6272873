// Command reprise-jetstream lists the runs of a store on JetStream, and moves runs
// between it, directories and files.
//
//	reprise-jetstream runs
//	reprise-jetstream copy-from DIR [RUN...]
//	reprise-jetstream copy-to DIR [RUN...]
//	reprise-jetstream verify [RUN...]
//	reprise-jetstream export RUN FILE
//	reprise-jetstream import FILE...
//	reprise-jetstream gc [GRACE]
//	reprise-jetstream repair
//	reprise-jetstream init
//	reprise-jetstream permissions dashboard|client|worker|admin
//
// `reprise import` reads what export writes, and import reads what `reprise export
// --format msgpack` writes. Only copy-from and copy-to copy artifacts, and messages
// that wait for a run. Copying again what was interrupted continues it. Verify reads
// runs, or all of them, with their messages and artifacts. Gc removes the artifacts
// that no run refers to and that were put for the last time more than GRACE ago, or an
// hour. It reads all runs, and says first how much that is. Repair compares the list of
// runs and the queue with the records, and mends them; it says what it did. Init makes the streams of a store that do not
// exist, for users who may not. Permissions prints what the user of a process must be allowed,
// for the configuration of a server; it connects to none.
package main
