package browser

import (
	"testing"

	"github.com/reprise-go/reprise/streamer"
)

// TestPageThatIsLeftClosesItsStream checks that the page closes its stream when the user leaves the
// page, and opens it again when the user comes back.
func TestPageThatIsLeftClosesItsStream(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := open(t, s.url())
	p.waitLive()
	p.wait(`(dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true })), document.querySelector("#connection").dataset.state === "resting")`)
	p.wait(`(dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })), true)`)
	p.waitLive()
}
