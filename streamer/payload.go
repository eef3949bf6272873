package streamer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/internal/payload"
	"github.com/reprise-go/reprise/record"
)

// servePayload sends the whole input or output of a call as JSON, or its error as text. Clients may
// request a byte range.
func (h *Handler) servePayload(w http.ResponseWriter, req *http.Request, scope *Access) {
	id, call := req.PathValue("run"), req.PathValue("call")
	end := max(strings.LastIndexByte(call, '/'), 0) // the address of the call may contain slashes
	part := strings.TrimPrefix(call[end:], "/")
	address, err := record.ParseAddress(call[:end])
	switch {
	case part != "input" && part != "output" && part != "error":
		h.refuse(w, http.StatusNotFound, "not_found", "a call has input, output and error, but no "+strconv.Quote(record.Truncate(part, maxName))+"; in an address, write # as %23")
		return
	case err != nil:
		h.refuse(w, http.StatusBadRequest, "bad_request", err.Error()+": want the address of a call, such as agent/get_weather%232")
		return
	case !h.admitRun(w, req, scope):
		return
	case h.whole == nil:
		h.refuse(w, http.StatusNotFound, "not_found", "inputs and outputs are read from a store, and this server has none")
		return
	}
	parts, found, err := payload.Of(h.whole.Records(req.Context(), id, 0), address)
	if err == nil && !found {
		h.refuse(w, http.StatusNotFound, "not_found", fmt.Sprintf("run %q has no call %q", id, record.Truncate(address.String(), maxName)))
		return
	}
	var data []byte
	if err == nil {
		data, err = h.partOf(req.Context(), &parts, part)
	}
	if large := (*tooLargeError)(nil); errors.As(err, &large) {
		h.refuse(w, http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the stored %s has %d bytes, and at most %d are sent; to print it, use reprise show %s --%s %s",
			part, large.bytes, maxPayload, id, part, address))
		return
	} else if err != nil {
		h.refuseError(w, err, missingPart(part))
		return
	}
	h.sendPayload(w, req, part, data)
}

// maxPayload is the maximum stored size, in bytes, of an input or output that is sent.
const maxPayload = 64 << 20

// tooLargeError reports that the stored input or output of a call has more than maxPayload bytes.
type tooLargeError struct{ bytes int }

func (e *tooLargeError) Error() string { return strconv.Itoa(e.bytes) + " bytes" }

// partOf returns one part of a payload, redacted. If there is no such part, the error is
// ErrNotFound.
func (h *Handler) partOf(ctx context.Context, p *payload.Payload, part string) ([]byte, error) {
	encoded := p.Input
	switch {
	case part == "error" && p.Err == nil:
		return nil, ErrNotFound
	case part == "error":
		text := record.ErrorOf(p.Err).Message
		if h.options.Redact != nil {
			text = h.options.Redact.Text(text)
		}
		return []byte(text), nil
	case part == "output":
		encoded = p.Output
	}
	if part == "output" && p.Artifact != "" {
		var err error
		if encoded, err = h.whole.Artifact(ctx, p.Artifact); err != nil {
			return nil, err
		}
	}
	switch {
	case encoded == nil:
		return nil, ErrNotFound
	case len(encoded) > maxPayload:
		return nil, &tooLargeError{len(encoded)}
	}
	text, err := record.JSON(encoded, h.options.redactText())
	if errors.Is(err, record.ErrRedacted) {
		return nil, ErrNotFound
	}
	return []byte(text), err
}

func missingPart(part string) string {
	switch part {
	case "input":
		return "the input of this call was not recorded: state.WithPayloads records inputs"
	case "output":
		return "no output of this call was recorded"
	}
	return "no attempt of this call has failed"
}

// payloadPolicy allows a browser to show a payload, and nothing else.
const payloadPolicy = "default-src 'none'; frame-ancestors 'none'; sandbox"

func (h *Handler) sendPayload(w http.ResponseWriter, req *http.Request, part string, data []byte) {
	kind, extension := "text/plain; charset=utf-8", "txt"
	if part != "error" && json.Valid(data) { // redaction may leave something that is not JSON
		kind, extension = "application/json", "json"
	}
	hash := sha256.Sum256(data)
	header := w.Header()
	header.Set("Content-Type", kind)
	header.Set("Content-Security-Policy", payloadPolicy)
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", `"`+hex.EncodeToString(hash[:8])+`"`)
	if req.URL.Query().Has("download") {
		header.Set("Content-Disposition", `attachment; filename="`+part+"."+extension+`"`)
	}
	http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(data))
}
