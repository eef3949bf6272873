package streamer

import (
	"embed"
	"mime"
	"net/http"
	"path"
)

//go:embed page
var page embed.FS

// policy lets the page run its own script and talk to its own server, and
// nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (h *Handler) servePage(w http.ResponseWriter, req *http.Request, scope *Scope) {
	h.sendPage(w, req, "index.html")
}

func (h *Handler) serveAsset(w http.ResponseWriter, req *http.Request, _ *Scope) {
	h.sendPage(w, req, req.PathValue("asset"))
}

func (h *Handler) sendPage(w http.ResponseWriter, req *http.Request, name string) {
	data, err := page.ReadFile(path.Join("page", path.Base(name)))
	if err != nil {
		h.refuseMethod(w, req)
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(data)
}
