package dev

import (
	"context"

	"github.com/countersign/countersign/internal/devstate"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/pkg/store"
)

// Tenant is the one that a development system has.
const Tenant = model.TenantID("default")

// keyName is the name of the first key, which has every role.
const keyName = "dev"

// bootstrap brings the database to this version and makes sure of the tenant
// and of a key. The key of an earlier start stays valid, so that what was
// pasted into a shell goes on working.
func bootstrap(ctx context.Context, o Options, s *servers) (devstate.State, error) {
	state := devstate.State{NATSURL: s.nats, RedisURL: s.redis, DatabaseURL: s.postgres}
	if err := store.Migrate(ctx, s.postgres); err != nil {
		return state, err
	}
	db, err := store.New(s.postgres, store.Options{})
	if err != nil {
		return state, err
	}
	defer db.Close()
	if err := db.EnsureTenant(ctx, Tenant); err != nil {
		return state, err
	}
	if state.APIKey, err = ensureKey(ctx, db, o.Dir); err != nil {
		return state, err
	}
	secrets, err := db.SigningSecrets(ctx, Tenant)
	if err != nil {
		return state, err
	}
	state.WebhookSecret = secrets[0]
	return state, nil
}

func ensureKey(ctx context.Context, db *store.Store, dir string) (string, error) {
	if before, err := devstate.Read(dir); err == nil && before.APIKey != "" {
		if p, err := db.Authenticate(ctx, before.APIKey); err == nil && p.Tenant == Tenant {
			return before.APIKey, nil
		}
	}
	key := store.NewKey()
	_, err := db.PutKey(ctx, Tenant, store.KeyRow{
		Name:    keyName,
		Roles:   []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer},
		ActsFor: true,
	}, key, "countersign dev", "dev")
	return key, err
}
