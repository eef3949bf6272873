// Command reprise-postgres migrates the schema of a store on PostgreSQL, and moves runs between the
// store and directories.
//
//	reprise-postgres migrate
//	reprise-postgres migrate -print [FROM]
//	reprise-postgres runs
//	reprise-postgres copy-from DIR [RUN...]
//	reprise-postgres copy-to DIR [RUN...]
//	reprise-postgres verify [RUN...]
//	reprise-postgres gc [GRACE]
//
// The database and the schema are given by -store or DATABASE_URL, as for a service:
//
//	reprise-postgres -store 'postgres://app@db/app?schema=agents' migrate
//
// The schema can also be given by the flag -schema; by default, it is reprise. PGPASSWORD and
// libpq's other variables provide what the URL does not set. Migrate -print prints the statements
// that bring the schema from version FROM (0 if it does not exist) to the version that this command
// needs, to be applied with another tool. To continue an interrupted copy, repeat it; open runs are
// not copied. To move runs from or to another kind of store, copy them by way of a directory; see
// the commands reprise and reprise-jetstream. Verify reads every record, message and artifact. Gc
// removes the artifacts that no run refers to and that were last put more than GRACE ago (one hour
// by default).
package main
