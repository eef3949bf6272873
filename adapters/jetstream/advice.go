package jetstream

import (
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// advice returns a string that states what to do about an error from the server, or the empty
// string if there is no advice for that error.
func advice(err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return "; raise the server's max_payload"
	case errors.As(err, &api):
		return adviceByCode[api.ErrorCode]
	}
	return ""
}

var adviceByCode = map[jetstream.ErrorCode]string{
	10002: moreStorage,
	10005: "; a cluster needs as many servers with JetStream as Options.Replicas",
	10023: moreStorage,
	10026: "; raise max_consumers for the account, and for the stream if it has that limit",
	10027: "; raise max_streams for the account: a store needs four streams",
	10028: "; raise the account's max_mem and the server's max_memory_store: the consumers that read streams are kept in memory",
	10047: moreStorage,
	10059: "; it was deleted: to create it again, open the store again or run `reprise-jetstream repair`",
	10074: "; set Options.Replicas to 1, or use a cluster",
	10077: "; raise the stream's limits, for example with `nats stream edit --max-bytes`, or remove runs",
	10113: "; create the stream with `reprise-jetstream init`, using an account without max_bytes_required",
	10122: "; raise max_stream_bytes for the account, or lower Options.MaxBytes",
}

const moreStorage = "; raise the server's max_file_store and the account's max_file, or free some storage"
