package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/pkg/model"
)

// EnsureTenant makes a tenant with its first signing secret, if it is new.
func (s *Store) EnsureTenant(ctx context.Context, tenant model.TenantID) error {
	err := transact(ctx, s.pool, "ensure tenant", func(ctx context.Context, t *tx) error {
		return t.commit(ctx, func(b *pgx.Batch) {
			b.Queue(`insert into tenants (tenant_id) values ($1) on conflict do nothing`, tenant)
			b.Queue(`
				insert into signing_secrets (tenant_id, secret)
				select $1, $2 where not exists (select from signing_secrets where tenant_id = $1)`, tenant, NewSigningSecret())
		})
	})
	return unavailable(err)
}

// Halt switches a tenant's kill switch: while it is on, nothing is claimed,
// and what a worker tries to claim is stopped. Errors: [model.ErrNotFound].
func (s *Store) Halt(ctx context.Context, tenant model.TenantID, halted bool, actor, channel string) error {
	action := "tenant.resumed"
	if halted {
		action = "tenant.halted"
	}
	found := false
	err := s.configure(ctx, tenant, actor, channel, action, "", func(b *pgx.Batch) error {
		b.Queue(`update tenants set halted = $2 where tenant_id = $1`, tenant, halted).Exec(func(tag pgconn.CommandTag) error {
			found = tag.RowsAffected() == 1
			return nil
		})
		return nil
	})
	if err == nil && !found {
		return model.ErrNotFound
	}
	return err
}

// HashKey is what is stored of an API key: its SHA-256. A key has 256 random
// bits, so nothing slower is needed.
func HashKey(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// NewKey makes an API key: 256 random bits.
func NewKey() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:])
	return "cs_" + base64.RawURLEncoding.EncodeToString(raw[:])
}

// KeyRow is an API key as it is listed; the key itself is never stored.
type KeyRow struct {
	Name         string
	Roles        []model.Role
	ActsFor      bool
	TokensDecide bool // the tokens that it mints may decide
	Sink         *model.Sink
	CreatedAt    time.Time
}

// PutKey makes or replaces an API key under a name. The tokens that one
// replaced had minted are not good any more.
func (s *Store) PutKey(ctx context.Context, tenant model.TenantID, k KeyRow, key, actor, channel string) (created bool, err error) {
	sink, err := encodeSink(k.Sink)
	if err != nil {
		return false, err
	}
	err = s.configure(ctx, tenant, actor, channel, "key.put", k.Name, func(b *pgx.Batch) error {
		b.Queue(upsertKey, tenant, k.Name, HashKey(key), roleNames(k.Roles), k.ActsFor, k.TokensDecide, newTokenSecret(), sink).
			QueryRow(func(row pgx.Row) error { return row.Scan(&created) })
		return nil
	})
	return created, err
}

const upsertKey = `
	insert into keys (tenant_id, name, hash, roles, acts_for, tokens_decide, token_secret, sink)
	values ($1, $2, $3, $4, $5, $6, $7, $8)
	    on conflict (tenant_id, name) do update
	   set hash = excluded.hash, roles = excluded.roles, acts_for = excluded.acts_for,
	       tokens_decide = excluded.tokens_decide, token_secret = excluded.token_secret, sink = excluded.sink
	returning xmax = 0`

// newTokenSecret makes what a key's tokens are signed with: 256 random bits.
func newTokenSecret() []byte {
	var raw [32]byte
	_, _ = rand.Read(raw[:])
	return raw[:]
}

// ChangeKey changes what a key may do and leaves the key itself. Errors:
// [model.ErrNotFound].
func (s *Store) ChangeKey(ctx context.Context, tenant model.TenantID, k KeyRow, actor, channel string) error {
	sink, err := encodeSink(k.Sink)
	if err != nil {
		return err
	}
	return s.amend(ctx, tenant, actor, channel, "key.changed", k.Name, changeKey, tenant, k.Name, roleNames(k.Roles), k.ActsFor,
		k.TokensDecide, sink)
}

const changeKey = `
	update keys set roles = $3, acts_for = $4, tokens_decide = $5, sink = $6
	 where tenant_id = $1 and name = $2`

func roleNames(roles []model.Role) []string {
	out := make([]string, len(roles))
	for i, r := range roles {
		out[i] = string(r)
	}
	return out
}

func encodeSink(sink *model.Sink) (*string, error) {
	if sink == nil {
		return nil, nil
	}
	raw, err := json.Marshal(sink)
	text := string(raw)
	return &text, err
}

// DeleteKey removes an API key. Errors: [model.ErrNotFound].
func (s *Store) DeleteKey(ctx context.Context, tenant model.TenantID, name, actor, channel string) error {
	return s.remove(ctx, tenant, actor, channel, "key.deleted", name, `delete from keys where tenant_id = $1 and name = $2`)
}

// Keys lists a tenant's API keys by name.
func (s *Store) Keys(ctx context.Context, tenant model.TenantID) ([]KeyRow, error) {
	rows, err := s.pool.Query(ctx, `
		select name, roles, acts_for, tokens_decide, sink, created_at from keys where tenant_id = $1 order by name`, tenant)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k KeyRow, err error) {
		var sink []byte
		if err := row.Scan(&k.Name, &k.Roles, &k.ActsFor, &k.TokensDecide, &sink, &k.CreatedAt); err != nil {
			return k, err
		}
		k.Sink, err = decodeSink(sink)
		return k, err
	})
	return out, unavailable(err)
}

// Authenticate finds whom an API key names. Errors: [model.ErrNotFound].
func (s *Store) Authenticate(ctx context.Context, key string) (model.Principal, error) {
	var p model.Principal
	var sink []byte
	err := s.pool.QueryRow(ctx, `select tenant_id, name, roles, acts_for, sink from keys where hash = $1`, HashKey(key)).
		Scan(&p.Tenant, &p.Key, &p.Roles, &p.ActsFor, &sink)
	if isNoRows(err) {
		return p, model.ErrNotFound
	}
	if err != nil {
		return p, unavailable(err)
	}
	p.Subject = "key:" + p.Key
	p.Sink, err = decodeSink(sink)
	return p, err
}

// Minter is a key that may mint tokens for people.
type Minter struct {
	Secret []byte      // signs its tokens
	Decide bool        // they may decide
	Sink   *model.Sink // where continuations of what they ask for go; nil where it says none
}

// Minter finds a key that may mint tokens, by its name. Errors:
// [model.ErrNotFound], also where the key has not the role for it.
func (s *Store) Minter(ctx context.Context, tenant model.TenantID, key string) (Minter, error) {
	var m Minter
	var sink []byte
	err := s.pool.QueryRow(ctx, selectMinter, tenant, key, model.RoleBackend).Scan(&m.Secret, &m.Decide, &sink)
	if isNoRows(err) {
		return m, model.ErrNotFound
	}
	if err == nil {
		m.Sink, err = decodeSink(sink)
	}
	return m, unavailable(err)
}

const selectMinter = `
	select token_secret, tokens_decide, sink
	  from keys
	 where tenant_id = $1 and name = $2 and ($3)::text = any(roles)`

func decodeSink(raw []byte) (*model.Sink, error) {
	if raw == nil {
		return nil, nil
	}
	var sink model.Sink
	return &sink, json.Unmarshal(raw, &sink)
}

// NewSigningSecret makes a webhook secret of 256 random bits, in the form of
// Standard Webhooks.
func NewSigningSecret() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:])
	return "whsec_" + base64.StdEncoding.EncodeToString(raw[:])
}

// RotationOverlap is how long the old secret still signs after a rotation.
const RotationOverlap = 24 * time.Hour

// SigningSecrets gives the secrets that sign now, the newest first.
func (s *Store) SigningSecrets(ctx context.Context, tenant model.TenantID) ([]string, error) {
	rows, err := s.pool.Query(ctx, `
		select secret from signing_secrets
		 where tenant_id = $1 and (retired_at is null or retired_at > clock_timestamp())
		 order by created_at desc`, tenant)
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return out, unavailable(err)
}

// RotateSigningSecret adds a new secret; those before it sign for another
// [RotationOverlap].
func (s *Store) RotateSigningSecret(ctx context.Context, tenant model.TenantID, actor, channel string) error {
	return s.configure(ctx, tenant, actor, channel, "signing-secret.rotated", "", func(b *pgx.Batch) error {
		b.Queue(`
			update signing_secrets set retired_at = clock_timestamp() + $2 * interval '1 second'
			 where tenant_id = $1 and retired_at is null`, tenant, int64(RotationOverlap.Seconds()))
		b.Queue(`insert into signing_secrets (tenant_id, secret) values ($1, $2)`, tenant, NewSigningSecret())
		return nil
	})
}
