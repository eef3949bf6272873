-- Leases: a row for each process. Its runs and jobs belong to it until expires.
create table reprise.processes (
	id      bigint primary key,
	expires timestamptz not null
);

-- Runs. Info has the form of docs/format.md. The columns from status to updated are copies of parts
-- of it, for lists; created and updated are in nanoseconds since 1970. Each statement that appends
-- compares opening and last_seq. Changed is the transaction that last changed the run, other than by
-- appending: no index has a column that appends change.
create table reprise.runs (
	uid      text collate "C" primary key,
	id       text collate "C" not null unique,
	version  bigint not null,
	opening  text not null,
	swaps    text not null,
	process  bigint,
	last_seq bigint not null,
	info     bytea not null,
	status   text collate "C" not null,
	program  text collate "C" not null,
	program_version text collate "C" not null,
	pipeline text collate "C" not null,
	parent   text collate "C" not null,
	error_class text collate "C" not null,
	asking   bool not null,
	tags     text[] not null,
	created  bigint not null,
	updated  bigint not null,
	changed  xid8 not null default pg_current_xact_id()
) with (fillfactor = 70);
create index runs_updated on reprise.runs (updated desc, id);
create index runs_status on reprise.runs (status, updated desc, id);
create index runs_ended on reprise.runs (status) where status in ('completed', 'failed', 'cancelled'); -- to count them
create index runs_program on reprise.runs (program, status, updated desc, id) where program <> '';
create index runs_pipeline on reprise.runs (pipeline, status, updated desc, id) where pipeline <> '';
create index runs_created on reprise.runs (created desc, id);
create index runs_duration on reprise.runs ((updated - created) desc, id);
create index runs_parent on reprise.runs (parent, updated desc, id) where parent <> '';
create index runs_error_class on reprise.runs (error_class, updated desc, id) where error_class <> '';
create index runs_asking on reprise.runs (updated desc, id) where asking;
create index runs_tags on reprise.runs using gin (tags) where tags <> '{}';
create index runs_changed on reprise.runs (changed);

-- The values that lists are sorted by and that rarely change before the end of a run. They have a
-- separate table because an update of a row changes all indexes of its table. The indexes have the
-- program, so that the list of one program does not look up the runs of all programs.
create table reprise.figures (
	uid     text collate "C" primary key,
	id      text collate "C" not null,
	program text collate "C" not null,
	ended   bigint not null,
	cost    bigint not null,
	tokens  bigint not null,
	retries bigint not null
);
create index figures_ended on reprise.figures (ended desc, id) include (program);
create index figures_cost on reprise.figures (cost desc, id) include (program);
create index figures_tokens on reprise.figures (tokens desc, id) include (program);
create index figures_retries on reprise.figures (retries desc, id) include (program);

-- The texts of runs that are searched, in lower case. Without pg_trgm, which belongs to
-- PostgreSQL, a search reads all of them.
create table reprise.words (
	uid   text collate "C" primary key,
	words text not null
);
do $$ begin
	create extension if not exists pg_trgm;
	create index words_words on reprise.words using gin (words gin_trgm_ops);
exception when insufficient_privilege or undefined_file or undefined_object or feature_not_supported then
	raise notice 'pg_trgm cannot be used: searches for a text read all runs';
end $$;

-- Records; those that were appended together are in one row. They are never updated.
create table reprise.batches (
	uid     text collate "C" not null,
	last    bigint not null,
	data    bytea not null,
	changed xid8 not null default pg_current_xact_id(),
	primary key (uid, last)
);
create index batches_changed on reprise.batches (changed);

-- Messages that wait for runs.
create table reprise.inbox (
	uid  text collate "C" not null,
	id   text collate "C" not null,
	data bytea not null,
	primary key (uid, id)
);

-- Large outputs, by the SHA-256 of their data.
create table reprise.artifacts (
	ref  text collate "C" primary key,
	data bytea not null,
	put  timestamptz not null default clock_timestamp()
);

-- Runs that were deleted, for watchers, and the change up to which deletions are forgotten.
create table reprise.deleted (
	uid      text collate "C" primary key,
	id       text collate "C" not null,
	version  bigint not null,
	last_seq bigint not null,
	info     bytea not null,
	at       timestamptz not null default clock_timestamp(),
	changed  xid8 not null default pg_current_xact_id()
);
create index deleted_changed on reprise.deleted (changed);
create index deleted_at on reprise.deleted (at);
create table reprise.forgotten (
	id      int primary key check (id = 1),
	changed xid8 not null
);
insert into reprise.forgotten values (1, '0');

-- The queue. Whoever takes a job sets process and stamp; the end of the process frees it.
create table reprise.jobs (
	run      text collate "C" primary key,
	program  text collate "C" not null,
	version  text collate "C" not null,
	priority bigint not null,
	due      timestamptz not null,
	process  bigint references reprise.processes on delete set null,
	stamp    bigint not null default 0
) with (fillfactor = 70);
create index jobs_due on reprise.jobs (program, version, priority desc, due) where process is null;
create index jobs_process on reprise.jobs (process) where process is not null;

-- Outputs of tools whose effect is in this database, by their idempotency keys: see Once.
-- They are deleted with the run that has the uid; for a run in another store, the uid is empty.
create table reprise.effects (
	key    text collate "C" primary key,
	uid    text collate "C" not null,
	output bytea,
	at     timestamptz not null default clock_timestamp()
);
create index effects_uid on reprise.effects (uid);
