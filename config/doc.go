// Package config reads retry configuration from YAML and JSON documents:
//
//	all: 5                       # attempts of every call
//	tool_call:
//	  max_attempts: 4
//	  initial_delay: 500ms       # or seconds: 0.5
//	  retry_when: status_code >= 500
//	agent_call: false            # one attempt
//	actors:
//	  get_weather:
//	    backoff: constant
//	    retry_on: [timeout, rate_limit]
//
// [Document.Options] returns a document as options of a run. The names are the same as in
// printed configuration; docs/retry.schema.json describes them for editors. Levels do not
// merge: only the most specific one applies, and its missing fields have the defaults of
// [core.RetryConfig]. Levels can share parts by the anchors, aliases and merge keys of
// YAML.
//
// A document is read as a whole or not at all: for unknown keys, wrong types and values
// out of range, the error is an [*Error] that lists each with its line and column.
//
// [ReadArgyll], [ReadTasker] and [ReadNoETL] read the retry configuration of steps of
// these systems, with the meaning that it has there.
package config
