package jetstream

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// advice returns a text that says what to do about an error of the server, or an empty string
// if it knows none.
func advice(err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return "; raise max_payload of the server"
	case errors.As(err, &api):
		return adviceByCode[api.ErrorCode]
	}
	return ""
}

var adviceByCode = map[jetstream.ErrorCode]string{
	10002: moreStorage,
	10005: "; a cluster needs as many servers with JetStream as Options.Replicas",
	10023: moreStorage,
	10026: "; raise max_consumers of the account, and of the stream if it has that limit",
	10027: "; raise max_streams of the account: a store has four streams",
	10028: "; raise max_mem of the account, and max_memory_store of the server: consumers of readers are in memory",
	10047: moreStorage,
	10059: "; it was deleted: open the store again or call `reprise-jetstream repair`, both of which create it again",
	10074: "; set Options.Replicas to 1, or use a cluster",
	10077: "; raise the limits of the stream, such as with `nats stream edit --max-bytes`, or remove runs",
	10113: "; make the stream with `reprise-jetstream init` for an account without max_bytes_required",
	10122: "; raise max_stream_bytes of the account, or lower Options.MaxBytes",
}

const moreStorage = "; raise max_file_store of the server, and max_file of the account, or free some of its storage"
