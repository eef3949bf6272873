// Command reprise-jetstream lists the runs of a store on JetStream, and moves runs between the
// store, directories and files.
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
// `reprise import` reads what export writes, and import reads what `reprise export --format
// msgpack` writes. An imported run that has not ended is interrupted until it is resumed, for
// example with a service's request resume. Only copy-from and copy-to also copy artifacts and the
// messages that wait for a run. To continue an interrupted copy, repeat it.
//
// Verify reads the given runs, or all runs, with their messages and artifacts. Gc removes the
// artifacts that no run refers to and that were last put more than GRACE ago (one hour by default).
// It reads all runs, and first prints how much there is to read. Repair compares the list of runs
// and the queue with the records, corrects them, and prints what it has changed. Init creates the
// streams that a store lacks, for users who are not allowed to create streams themselves.
// Permissions prints the permissions that a process's user needs, in the form of a server's
// configuration; it does not connect to a server.
package main
