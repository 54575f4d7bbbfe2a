package httpapi

import (
	"fmt"
	"net/http"
)

// explainProblem answers GET /problems/{name}: what the type of a problem
// means, as text.
func explainProblem(w http.ResponseWriter, r *http.Request) {
	for _, k := range kinds {
		if k.name == r.PathValue("name") {
			text := fmt.Sprintf("%s (%d)\n%s\n\n%s\n", k.name, k.status, k.title, k.explanation)
			writeRaw(w, http.StatusOK, "text/plain; charset=utf-8", []byte(text))
			return
		}
	}
	text := "There is no such problem. The problems are:\n\n"
	for _, k := range kinds {
		text += fmt.Sprintf("/problems/%s (%d): %s\n", k.name, k.status, k.title)
	}
	writeRaw(w, http.StatusNotFound, "text/plain; charset=utf-8", []byte(text))
}
