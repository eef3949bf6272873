package streamer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed page
var page embed.FS

// policy allows the page to run its own scripts, talk to its own server, and show images that it
// has fetched from there, and nothing else. In browsers that support trusted types, turning a
// string into markup is an error.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types hub"

// contentTypes maps the file name extensions of the page's files to their content types. The
// system's own table is not used because it may be wrong, and browsers refuse scripts of a wrong
// type.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

func (h *Handler) servePage(w http.ResponseWriter, req *http.Request, _ *Access) {
	h.sendPage(w, req, "index.html")
}

func (h *Handler) serveAsset(w http.ResponseWriter, req *http.Request, _ *Access) {
	h.sendPage(w, req, req.PathValue("asset"))
}

// An asset is a file of the page.
type asset struct {
	data, compressed []byte
	tag              string // the ETag of data
}

// assets returns the page's files by their names.
var assets = sync.OnceValue(func() map[string]asset {
	all := make(map[string]asset)
	names, _ := fs.Glob(page, "page/*")
	for _, name := range names {
		data, _ := page.ReadFile(name) // reading an embedded file never fails
		hash := sha256.Sum256(data)
		all[path.Base(name)] = asset{data, compressed(data), hex.EncodeToString(hash[:8])}
	}
	return all
})

// sendPage sends a file of the page. Browsers keep the file, but ask each time whether it has
// changed, so all files always belong to the same version.
func (h *Handler) sendPage(w http.ResponseWriter, req *http.Request, name string) {
	file, ok := assets()[name]
	if !ok {
		h.refuseMethod(w, req)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Content-Type", contentTypes[path.Ext(name)])
	header.Set("Cache-Control", "no-cache")
	header.Add("Vary", "Accept-Encoding")
	data, tag := file.data, file.tag
	if acceptsGzip(req) && header.Get("Content-Encoding") == "" { // a middleware may compress
		header.Set("Content-Encoding", "gzip")
		data, tag = file.compressed, tag+"-gzip"
	}
	header.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, req, name, time.Time{}, bytes.NewReader(data))
}

// acceptsGzip reports whether a response may be compressed. The response to a range request must
// not be, because ranges refer to the uncompressed file.
func acceptsGzip(req *http.Request) bool {
	if req.Header.Get("Range") != "" {
		return false
	}
	for _, coding := range strings.Split(strings.Join(req.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if strings.EqualFold(name, "gzip") && strings.Trim(weight, "q=0.") != "" || strings.EqualFold(name, "gzip") && weight == "" {
			return true
		}
	}
	return false
}

func compressed(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(data) // writing to a Buffer never fails
	_ = z.Close()
	return b.Bytes()
}
