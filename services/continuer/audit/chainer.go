package audit

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

const (
	// linkEvery is well within the second in which a row is linked.
	linkEvery = 400 * time.Millisecond
	// linkAgain: so many were linked at once that there may be more.
	linkAgain = 1000
	// headsEvery is how often the heads that moved are logged. A log that is
	// kept elsewhere shows later what was cut off (countersign verify --head).
	headsEvery = 10 * time.Minute
)

// Links is the chain; *store.Store is one.
type Links interface {
	LinkAudit(ctx context.Context) (int, error)
	AuditHeads(ctx context.Context) ([]store.AuditHead, error)
}

// Chainer links the audit.
type Chainer struct {
	links Links
	log   *slog.Logger
	heads map[model.TenantID]int64 // as they were logged last
}

// NewChainer makes a chainer.
func NewChainer(links Links, log *slog.Logger) *Chainer {
	return &Chainer{links, log, map[model.TenantID]int64{}}
}

// Run links until ctx ends.
func (c *Chainer) Run(ctx context.Context) error {
	heads := time.NewTicker(headsEvery)
	defer heads.Stop()
	failing := false
	for {
		n, err := c.links.LinkAudit(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			c.log.WarnContext(ctx, "the audit cannot be linked, trying again", "err", err)
		}
		failing = err != nil
		pause := linkEvery/2 + rand.N(linkEvery)
		if n >= linkAgain {
			pause = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-heads.C:
			c.logHeads(ctx)
		case <-time.After(pause):
		}
	}
}

func (c *Chainer) logHeads(ctx context.Context) {
	heads, err := c.links.AuditHeads(ctx)
	if err != nil {
		return // the next time is soon enough
	}
	for _, h := range heads {
		if c.heads[h.Tenant] != h.Seq {
			c.heads[h.Tenant] = h.Seq
			c.log.InfoContext(ctx, "the audit's head", "tenant", h.Tenant, "head", h.String())
		}
	}
}
