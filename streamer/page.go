package streamer

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed page
var page embed.FS

// policy lets the page run its own scripts and talk to its own server, and
// nothing else. Where browsers know trusted types, a string that becomes
// markup is an error.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// contentTypes are those of the page's files. What the machine thinks of an
// extension does not count: a script of another type is not run.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

func (h *Handler) servePage(w http.ResponseWriter, req *http.Request, _ *Scope) {
	h.sendPage(w, req, "index.html")
}

func (h *Handler) serveAsset(w http.ResponseWriter, req *http.Request, _ *Scope) {
	h.sendPage(w, req, req.PathValue("asset"))
}

// sendPage sends a file of the page. Browsers keep it and ask each time
// whether it has changed, so that the parts always fit together.
func (h *Handler) sendPage(w http.ResponseWriter, req *http.Request, name string) {
	data, err := fs.ReadFile(page, path.Join("page", path.Base(name)))
	if err != nil {
		h.refuseMethod(w, req)
		return
	}
	hash := sha256.Sum256(data)
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", `"`+hex.EncodeToString(hash[:8])+`"`)
	http.ServeContent(w, req, name, time.Time{}, bytes.NewReader(data))
}
