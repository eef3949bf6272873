package state

import "github.com/reprise-go/reprise/internal/codec"

// JSONAnswer is an answer that somebody wrote as JSON, as a value for [Answer].
// Whole numbers stay whole, so that they fit a type of whole numbers.
func JSONAnswer(data []byte) (any, error) { return codec.FromJSON(data) }
