package sink

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// Timeout bounds one delivery from dialing to the answer's end. A
	// receiver that needs longer for its work answers first and works then.
	Timeout = 15 * time.Second
	// maxAnswer is how much of an answer is read, in bytes, so that the
	// connection can be used again. Its content is never looked at.
	maxAnswer = 64 << 10
)

// Delivery is one try to hand over a continuation.
type Delivery struct {
	ID          string   // becomes webhook-id: the same for every try of one continuation and generation
	URL         string   // where to
	Secrets     []string // each "whsec_" and base64; during a rotation the new and the old one
	Body        []byte   // JSON, sent and signed byte by byte
	Traceparent string   // W3C trace context of the turn, or ""
}

// Webhook sends deliveries. It is safe for concurrent use.
type Webhook struct {
	client *http.Client
}

// NewWebhook sends through client, whose transport decides which addresses
// may be reached. The client itself is not changed.
func NewWebhook(client *http.Client) *Webhook {
	own := *client
	own.Jar = nil
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Webhook{client: &own}
}

// Send delivers d once. nil means that the receiver has it; every other
// outcome is a [*Failure], and whether the receiver saw the delivery is then
// unknown.
func (w *Webhook) Send(ctx context.Context, d Delivery) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	request, err := d.request(ctx, time.Now())
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return unreached(err)
	}
	defer response.Body.Close()
	// A receiver that has said 2xx has the delivery, even if the rest of its
	// answer is cut off, endless or slow.
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer)
	return judge(response)
}

func (d Delivery) request(ctx context.Context, now time.Time) (*http.Request, error) {
	signature, err := d.sign(now)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return nil, &Failure{Reason: "the sink's URL cannot be used; register the turn with another one"}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Countersign")
	// Written in lower case, as the specification spells them.
	request.Header[standardwebhooks.HeaderWebhookID] = []string{d.ID}
	request.Header[standardwebhooks.HeaderWebhookTimestamp] = []string{strconv.FormatInt(now.Unix(), 10)}
	request.Header[standardwebhooks.HeaderWebhookSignature] = []string{signature}
	if d.Traceparent != "" {
		request.Header["traceparent"] = []string{d.Traceparent}
	}
	return request, nil
}

// sign gives one signature per secret, so that a receiver that knows either
// the new or the old one can verify.
func (d Delivery) sign(now time.Time) (string, error) {
	if len(d.Secrets) == 0 {
		return "", &Failure{Reason: "the tenant has no signing secret; make one with POST /v1/signing-secret/rotate"}
	}
	signatures := make([]string, 0, len(d.Secrets))
	for i, secret := range d.Secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return "", &Failure{Reason: fmt.Sprintf("signing secret %d of %d is not base64", i+1, len(d.Secrets))}
		}
		signature, err := signer.Sign(d.ID, now, d.Body)
		if err != nil {
			return "", &Failure{Reason: "the delivery could not be signed"}
		}
		signatures = append(signatures, signature)
	}
	return strings.Join(signatures, " "), nil
}
