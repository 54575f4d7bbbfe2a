package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

func (s *Server) putSchedule(w http.ResponseWriter, r *http.Request) {
	var schedule Schedule
	err := json.NewDecoder(r.Body).Decode(&schedule)
	if err == nil {
		err = s.Set(schedule)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (s *Server) getFired(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(s.Fired())
}

// Admin speaks to a server in another process: its URL, without a path.
type Admin string

// Set is [Server.Set].
func (a Admin) Set(ctx context.Context, schedule Schedule) error {
	body, err := json.Marshal(schedule)
	if err != nil {
		return err
	}
	return a.do(ctx, http.MethodPut, "/_/schedule", body, nil)
}

// Release is [Server.Release].
func (a Admin) Release(ctx context.Context) error {
	return a.do(ctx, http.MethodPost, "/_/release", nil, nil)
}

// Fired is [Server.Fired].
func (a Admin) Fired(ctx context.Context) (fired map[Behaviour]int, err error) {
	return fired, a.do(ctx, http.MethodGet, "/_/fired", nil, &fired)
}

func (a Admin) do(ctx context.Context, method, path string, body []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, string(a)+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, said)
	}
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(said, answer)
}
