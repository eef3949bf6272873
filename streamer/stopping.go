package streamer

import "context"

// eventStopping is the name of the event that reports who has asked a run to stop.
const eventStopping = "stopping"

// stoppingBody is the data of the event "stopping".
type stoppingBody struct {
	RunID    string `json:"run_id"`
	Stopping *Stop  `json:"stopping"`
}

// PublishStopping tells the clients who asked a running run to stop, with an event "stopping" in
// the stream of all runs. If the run was set aside, PublishStopping makes the run's followers read
// why: see [FollowEvent]. It does nothing if the run was neither asked to stop nor set aside, or if
// the handler has no source.
func (h *Handler) PublishStopping(ctx context.Context, runID string) {
	h.Reread(runID)
	if h.hasClients() { // a client that connects later reads the state of the run
		h.sayStopping(ctx, runID)
	}
}

func (h *Handler) hasClients() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clients.total > 0
}

// sayStopping is like PublishStopping, but does not check whether there are clients. It reports
// whether the run was asked to stop and is still open.
func (h *Handler) sayStopping(ctx context.Context, runID string) bool {
	if h.source == nil {
		return false
	}
	info, err := h.source.Run(ctx, runID)
	if err != nil || info.Stopping == nil {
		return false
	}
	h.say(runID, eventStopping, stoppingBody{runID, info.Stopping})
	return true
}
