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
// [Document.Options] makes options of a run of it. The names are those in which
// configuration is printed; docs/retry.schema.json describes them for editors.
// Levels do not merge: the most specific one decides alone, and what it leaves
// out has the default of [core.RetryConfig]. Anchors, aliases and merge keys
// of YAML share parts between them.
//
// A document is read whole or not at all: unknown keys, wrong types and values
// out of range are an [*Error] that lists each with its line and column.
//
// [ReadArgyll], [ReadTasker] and [ReadNoETL] read what steps of these systems
// have as their retry configuration, with the meaning that it has there.
package config
