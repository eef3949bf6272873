package service

import (
	"net/http"

	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/agui"
	"github.com/reprise-go/reprise/streamer/aisdk"
)

// pages serves threads over the protocols that front ends use.
type pages struct {
	agui  *agui.Handler
	aisdk *aisdk.Handler
}

func newPages(mux *http.ServeMux, dashboard *streamer.Handler, o *Options, control *Control) (*pages, error) {
	threads := &threads{control, o.Thread}
	a, err := agui.New(dashboard, agui.Options{Threads: threads, Control: control})
	if err != nil {
		return nil, err
	}
	b, err := aisdk.New(dashboard, aisdk.Options{Threads: threads, Control: control})
	if err != nil {
		return nil, err
	}
	for pattern, handler := range map[string]http.Handler{"/agui/{program}": a, "/chat/{program}": b} {
		mux.Handle(pattern, handler)
		mux.Handle(pattern+"/{rest...}", handler)
	}
	return &pages{a, b}, nil
}

func (p *pages) close() {
	p.agui.Close()
	p.aisdk.Close()
}
