// Package sink hands continuations to the places that wait for them.
//
// It owns delivery by signed webhook, after the Standard Webhooks
// specification (https://www.standardwebhooks.com): how a delivery is signed,
// sent and judged, and how long to wait before the next try. Delivery is at
// least once and is not acceptance: 2xx means received, never done. A
// receiver tells repetitions apart by webhook-id, which stays the same over
// all tries of one continuation.
//
// It keeps no state. When to try, when to give up, and what the row says
// about it is decided by the continuer, from committed rows.
//
// The HTTP client comes from outside, because which addresses may be reached
// is one rule for the whole product. Redirects are never followed, whatever
// that client says: a redirect would carry the body to a host that nobody
// configured.
//
// It imports the Standard Webhooks library and nothing of ours.
package sink
