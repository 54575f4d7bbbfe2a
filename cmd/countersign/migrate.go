package main

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

type migrateCmd struct {
	database
	FirstKey daemon.Secret `env:"COUNTERSIGN_FIRST_KEY" placeholder:"KEY" help:"API key \"first\" with every role to make sure of, at least 32 characters; none by default."`
}

// Help is what countersign migrate --help adds.
func (migrateCmd) Help() string {
	return `Any number of these may run at once; one of them does the work. It changes nothing when nothing is to be done.

Examples:
  COUNTERSIGN_DATABASE_URL=postgres://owner@db/countersign countersign migrate
  COUNTERSIGN_FIRST_KEY=cs_$(openssl rand -hex 32) countersign migrate`
}

// Run migrates, and makes sure of the tenant and its first key.
func (c *migrateCmd) Run(ctx context.Context, p process) error {
	key := c.FirstKey.Reveal()
	if key != "" && len(key) < 32 {
		return usagef("the first key is too short to be a secret: use at least 32 characters")
	}
	url, err := c.url()
	if err != nil {
		return err
	}
	if err := store.Migrate(ctx, url); err != nil {
		return err
	}
	s, err := c.open()
	if err != nil {
		return err
	}
	defer s.Close()
	tenant := c.tenant()
	if err := s.EnsureTenant(ctx, tenant); err != nil {
		return err
	}
	if key != "" {
		if err := ensureFirstKey(ctx, s, tenant, key); err != nil {
			return err
		}
	}
	fmt.Fprintln(p.out, "the schema is up to date; tenant", c.Tenant, "is there")
	return nil
}

func ensureFirstKey(ctx context.Context, s *store.Store, tenant model.TenantID, key string) error {
	if _, err := s.Authenticate(ctx, key); err == nil {
		return nil
	}
	_, err := s.PutKey(ctx, tenant, store.KeyRow{
		Name:    "first",
		Roles:   []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer},
		ActsFor: true, TokensDecide: true,
	}, key, "countersign migrate", "cli")
	return err
}
