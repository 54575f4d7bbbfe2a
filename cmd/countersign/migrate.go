package main

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

type migrateCmd struct {
	// The flags' library repeats a value that it cannot take, so it is given
	// one that it always can, and the URL is checked here.
	DatabaseURL daemon.Secret `name:"database-url" env:"COUNTERSIGN_DATABASE_URL" required:"" placeholder:"URL" help:"Postgres, as the owner of the schema."`
	Tenant      string        `env:"COUNTERSIGN_TENANT" default:"default" help:"Tenant to make sure of."`
	FirstKey    daemon.Secret `env:"COUNTERSIGN_FIRST_KEY" placeholder:"KEY" help:"API key \"first\" with every role to make sure of, at least 32 characters; none by default."`
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
	var url daemon.URL
	if err := url.UnmarshalText([]byte(c.DatabaseURL.Reveal())); err != nil {
		return usagef("--database-url or COUNTERSIGN_DATABASE_URL %w", err)
	}
	if err := store.Migrate(ctx, url.Reveal()); err != nil {
		return err
	}
	s, err := store.New(url.Reveal(), store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	tenant := model.TenantID(c.Tenant)
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
		ActsFor: true,
	}, key, "countersign migrate", "cli")
	return err
}
