package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Failure is a delivery that is not known to be received.
type Failure struct {
	Status     int           // the answer's status, or 0 without an answer
	Reason     string        // a sentence for the row and for people; holds no URL, secret or answer
	RetryAfter time.Duration // what the receiver asked to wait, or 0
	cause      error
}

func (f *Failure) Error() string { return f.Reason }

// Unwrap gives the network's error, if that was it.
func (f *Failure) Unwrap() error { return f.cause }

// judge reads the status alone: the answer's text is a stranger's.
func judge(response *http.Response) error {
	status := response.StatusCode
	answered := fmt.Sprintf("the receiver answered %d %s", status, http.StatusText(status))
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return &Failure{Status: status, Reason: answered + "; redirects are not followed, so name the final URL"}
	case status == http.StatusGone:
		return &Failure{Status: status, Reason: answered + "; it wants no more deliveries"}
	}
	return &Failure{Status: status, Reason: answered, RetryAfter: retryAfter(response.Header)}
}

// unreached explains a request without an answer. url.Error would repeat the
// URL, which can carry a token.
func unreached(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Failure{Reason: fmt.Sprintf("the receiver did not answer within %s", Timeout), cause: err}
	case errors.Is(err, context.Canceled):
		return &Failure{Reason: "the delivery was interrupted", cause: err}
	}
	return &Failure{Reason: "the receiver could not be reached: " + err.Error(), cause: err}
}

// retryAfter reads whole seconds, at most the longest wait of [Backoff]. A
// date is passed over: our own schedule does.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 86_400))*time.Second, maxWait)
}
