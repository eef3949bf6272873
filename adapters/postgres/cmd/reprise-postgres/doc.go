// Command reprise-postgres migrates the schema of a store on PostgreSQL, and moves runs
// between it and directories.
//
//	reprise-postgres migrate
//	reprise-postgres migrate --print [FROM]
//	reprise-postgres runs
//	reprise-postgres copy-from DIR [RUN...]
//	reprise-postgres copy-to DIR [RUN...]
//	reprise-postgres verify [RUN...]
//	reprise-postgres gc [GRACE]
//
// The database is that of -store, or DATABASE_URL. Migrate --print prints the statements that
// bring the schema from a version, 0 if it does not exist, to that of this command, for
// those who apply them with a tool of their own. Copying again what was interrupted continues
// it; a run that is open is not copied. Through a directory, runs come from and go to stores
// of any other kind: see the commands reprise and reprise-jetstream. Verify reads every
// record, message and artifact. Gc removes the artifacts that no run refers to and that were
// put for the last time more than GRACE ago, or an hour.
package main
