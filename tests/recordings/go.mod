module github.com/reprise-go/reprise/tests/recordings

go 1.26.6

replace github.com/reprise-go/reprise => ../..

require (
	charm.land/fantasy v0.41.2
	github.com/maruel/genai v0.1.0
	github.com/reprise-go/reprise v0.0.0-00010101000000-000000000000
	github.com/stretchr/testify v1.12.1
	github.com/tmc/langchaingo v0.1.14
	go.yaml.in/yaml/v4 v4.0.0
)

require (
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/sashabaranov/go-openai v1.43.0 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
