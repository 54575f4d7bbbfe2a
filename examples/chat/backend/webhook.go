package backend

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/countersign/countersign/pkg/client"
)

const (
	webhookPath = "/countersign"
	// maxWebhook bounds a delivery, in bytes: it holds ids, no content.
	maxWebhook = 64 << 10
)

// delivery is what a webhook says: ids, and where to read the rest.
type delivery struct {
	Type string `json:"type"`
	Data struct {
		Topic string `json:"topic"`
		Turn  string `json:"turn"`
	} `json:"data"`
}

// webhooks takes deliveries of continuations. 2xx means that it was received,
// not that the conversation went on; whatever fails here is delivered again.
func (b *Backend) webhooks() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+webhookPath, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxWebhook))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		switch ok, err := b.genuine(r.Context(), body, r.Header); {
		case err != nil:
			b.log.Warn("cannot check a webhook's signature", "error", err)
			http.Error(w, "the signature cannot be checked now", http.StatusServiceUnavailable)
			return
		case !ok:
			http.Error(w, "the signature is not Countersign's", http.StatusUnauthorized)
			return
		}
		var d delivery
		if err := json.Unmarshal(body, &d); err != nil || d.Type != "continuation.ready" {
			w.WriteHeader(http.StatusNoContent) // of a later version; nothing to do about it
			return
		}
		// Who delivered does not wait for all of it.
		if _, err := b.goOn(context.WithoutCancel(r.Context()), client.Continuation{Topic: d.Data.Topic, Turn: d.Data.Turn}, true); err != nil {
			b.log.Warn("cannot go on, waiting for the next delivery", "topic", d.Data.Topic, "error", err)
			http.Error(w, "cannot go on now", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// genuine tells whether a delivery was signed with the tenant's secret, the
// new or the old one during a rotation. The secret is asked for each time: a
// busier backend would keep it for a while.
func (b *Backend) genuine(ctx context.Context, body []byte, header http.Header) (bool, error) {
	secrets, err := b.api.SigningSecret(ctx)
	if err != nil {
		return false, err
	}
	for _, secret := range []string{secrets.Secret, secrets.Previous} {
		if secret == "" {
			continue
		}
		webhook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return false, err
		}
		if webhook.Verify(body, header) == nil {
			return true, nil
		}
	}
	return false, nil
}
