module github.com/reprise-go/reprise/tests/clients

go 1.26

require (
	github.com/r3labs/sse/v2 v2.10.0
	github.com/reprise-go/reprise v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	github.com/tmaxmax/go-sse v0.11.0
	gopkg.in/cenkalti/backoff.v1 v1.1.0
)

require (
	github.com/adhocore/gronx v1.20.4 // indirect
	github.com/fsnotify/fsnotify v1.10.1 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

replace github.com/reprise-go/reprise => ../../
