package window

import (
	"strings"

	"github.com/reprise-go/reprise/actors"
)

// Estimates of the tokens for parts of a message.
const (
	bytesPerToken  = 4
	perMessage     = 4    // for the role and other overhead
	perMedia       = 1100 // a medium-sized picture; services do not count its bytes as text
	bytesPerSecond = 16_000
	perSecond      = 32 // for audio
)

// Estimate returns the approximate number of tokens of a message, based on its length.
// A picture or a file counts as a fixed number of tokens; the tokens of audio depend
// on its size.
func Estimate(m actors.Message) int {
	n := perMessage + tokensOf(m.Text) + tokensOf(m.Reasoning)
	for _, p := range m.Parts {
		n += tokensOf(p.Text)
		switch {
		case strings.HasPrefix(p.MIME, "audio/"):
			n += perSecond * (1 + len(p.Data)/bytesPerSecond)
		case len(p.Data) > 0 || p.URL != "":
			n += perMedia
		}
	}
	for _, c := range m.ToolCalls {
		n += perMessage + tokensOf(c.Name) + tokensOf(c.Arguments)
	}
	if m.Opaque != nil {
		n += len(m.Opaque.Data) / bytesPerToken
	}
	return n
}

func tokensOf(text string) int { return (len(text) + bytesPerToken - 1) / bytesPerToken }

// estimateTools returns the approximate number of tokens of the tool descriptions.
func estimateTools(tools []actors.FunctionSpec) (n int) {
	for _, f := range tools {
		n += perMessage + tokensOf(f.Name) + tokensOf(f.Description) + len(f.Parameters)/bytesPerToken
	}
	return n
}

func estimateAll(messages []actors.Message) (n int) {
	for _, m := range messages {
		n += Estimate(m)
	}
	return n
}
