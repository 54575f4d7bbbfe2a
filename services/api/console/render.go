package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"time"
)

//go:embed assets templates
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"time": stamp,
}).ParseFS(files, "templates/*.html"))

// stamp is a time element; the script turns it into the reader's own time.
func stamp(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2006-01-02 15:04 UTC") + `</time>`)
}

// assets serves the style, the script and the icon; a browser asks each time
// and is told when nothing changed.
func assets() http.Handler {
	tags := map[string]string{}
	entries, err := files.ReadDir("assets")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, entry := range entries {
		content, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		tags["/assets/"+entry.Name()] = `"` + hex.EncodeToString(sum[:8]) + `"`
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tag, ok := tags[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		server.ServeHTTP(w, r)
	})
}

// render answers with a whole page.
func (c *Console) render(w http.ResponseWriter, status int, name string, p page) {
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, p); err != nil {
		c.fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the browser is gone
}

// fragment is a part of a page, for the script to put in its place.
func fragment(name string, data any) ([]byte, error) {
	var out bytes.Buffer
	err := templates.ExecuteTemplate(&out, name, data)
	return out.Bytes(), err
}
