package dev

import (
	"context"
	"os"
	"path/filepath"
	"strings"

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

// keyFile keeps the key between starts; its folder's owner alone may read it.
const keyFile = "api-key"

func ensureKey(ctx context.Context, db *store.Store, dir string) (string, error) {
	file := filepath.Join(dir, keyFile)
	if before, err := os.ReadFile(file); err == nil {
		key := strings.TrimSpace(string(before))
		if p, err := db.Authenticate(ctx, key); err == nil && p.Tenant == Tenant {
			return key, nil
		}
	}
	key := store.NewKey()
	_, err := db.PutKey(ctx, Tenant, store.KeyRow{
		Name:    keyName,
		Roles:   []model.Role{model.RoleBackend, model.RoleApprover, model.RoleAdmin, model.RoleViewer},
		ActsFor: true, TokensDecide: true,
	}, key, "countersign dev", "dev")
	if err != nil {
		return "", err
	}
	return key, os.WriteFile(file, []byte(key+"\n"), 0o600)
}
