// Command reprise-jetstream lists the runs of a store on JetStream, and moves runs
// between it, directories and files.
//
//	reprise-jetstream runs
//	reprise-jetstream copy-from DIR [RUN...]
//	reprise-jetstream copy-to DIR [RUN...]
//	reprise-jetstream export RUN FILE
//	reprise-jetstream import FILE...
//	reprise-jetstream gc [GRACE]
//
// What export writes, `reprise import` takes in, and what `reprise export --format
// msgpack` writes, import takes in. Artifacts are copied by copy-from and copy-to
// alone. Gc removes the artifacts that no run refers to and that were put for the
// last time more than GRACE ago, or an hour.
package main
