package openai

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/core"
)

// A server identifies a model's service in the attributes of an attempt.
type server struct {
	provider string // OpenTelemetry's name for the provider; otherwise the host
	address  string
	port     int
}

// serverOf returns the server for a base URL.
func serverOf(u *url.URL) server {
	s := server{provider: u.Hostname(), address: u.Hostname()}
	for _, p := range providers {
		if s.address == p.domain || strings.HasSuffix(s.address, "."+p.domain) {
			s.provider = p.name
			break
		}
	}
	switch port, err := strconv.Atoi(u.Port()); {
	case err == nil:
		s.port = port
	case u.Scheme == "http":
		s.port = 80
	case u.Scheme == "https":
		s.port = 443
	}
	return s
}

// providers are the services named in OpenTelemetry's semantic conventions, with their domains.
var providers = [...]struct{ domain, name string }{
	{"api.openai.com", "openai"},
	{"openai.azure.com", "azure.ai.openai"},
	{"openai.azure.us", "azure.ai.openai"},
	{"openai.azure.cn", "azure.ai.openai"},
	{"services.ai.azure.com", "azure.ai.inference"},
	{"models.ai.azure.com", "azure.ai.inference"},
	{"generativelanguage.googleapis.com", "gcp.gemini"},
	{"aiplatform.googleapis.com", "gcp.vertex_ai"},
	{"api.anthropic.com", "anthropic"},
	{"api.mistral.ai", "mistral_ai"},
	{"api.groq.com", "groq"},
	{"api.deepseek.com", "deepseek"},
	{"api.x.ai", "x_ai"},
	{"api.perplexity.ai", "perplexity"},
	{"api.cohere.ai", "cohere"},
	{"api.cohere.com", "cohere"},
	{"amazonaws.com", "aws.bedrock"},
	{"ml.cloud.ibm.com", "ibm.watsonx.ai"},
}

// annotate adds the server to the attributes of the attempt.
func (s server) annotate(ctx context.Context) {
	if s.address == "" {
		return
	}
	core.Annotate(ctx, "provider", s.provider)
	core.Annotate(ctx, "server_address", s.address)
	core.Annotate(ctx, "server_port", s.port)
}
