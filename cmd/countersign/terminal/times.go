package terminal

import (
	"fmt"
	"time"
)

// ShortID is the end of an id: ids begin with their time, so those of one
// afternoon begin alike.
func ShortID(id string) string {
	const shown = 8
	if len(id) != 36 {
		return id
	}
	return id[len(id)-shown:]
}

// Ago tells how long t lies before now: "3m".
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return span(now.Sub(t))
}

// Until tells how far t lies ahead of now: "in 6d", or "past".
func Until(t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case !t.After(now):
		return "past"
	}
	return "in " + span(t.Sub(now))
}

func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
