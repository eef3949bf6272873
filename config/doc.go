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
// [Document.Options] converts a document to options for a run. The keys are the same as in printed
// configuration; docs/retry.schema.json describes them for editors. Levels are not merged: only the
// most specific level applies, and its missing fields have the defaults of [core.RetryConfig].
// Levels can share parts through YAML anchors, aliases and merge keys.
//
// A document is read completely or not at all: if it has unknown keys, wrong types or values out of
// range, the error is an [*Error] that lists each problem with its line and column.
//
// [ReadArgyll], [ReadTasker] and [ReadNoETL] read the retry configuration of a step of Argyll,
// Tasker or NoETL and preserve its meaning.
package config
