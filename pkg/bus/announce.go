package bus

import (
	"context"

	"github.com/countersign/countersign/pkg/model"
)

// Announce signals what a commit changed (step 3 of the nine). It never
// blocks, and an announcement that is lost is made by the sweep.
func (b *Bus) Announce(changes []model.Change) {
	signals := make([]Signal, len(changes))
	for i, c := range changes {
		signals[i] = Signal{Tenant: c.Tenant, Topic: c.Topic, Version: c.Version}
	}
	_ = b.PublishSignals(context.Background(), signals)
}

// Check is [Bus.Connected] as a health check: nil, or [ErrDisconnected].
func (b *Bus) Check(context.Context) error {
	if !b.Connected() {
		return ErrDisconnected
	}
	return nil
}
