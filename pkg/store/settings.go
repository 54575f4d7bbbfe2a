package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// TopicSettings are what is said of a topic once, for every request that does
// not say it. They are configuration, and no state: a topic need not exist to
// have them, and its version knows nothing of them.
type TopicSettings struct {
	WhileOpen WhileOpen // what becomes of open turns when a person writes in a chat; "" is the default
}

// TopicSettings reads a topic's settings; one that has none has the zero ones.
func (s *Store) TopicSettings(ctx context.Context, tenant model.TenantID, topic model.TopicID) (out TopicSettings, err error) {
	err = s.pool.QueryRow(ctx, selectTopicSettings, tenant, string(topic)).Scan(&out.WhileOpen)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, nil
	}
	return out, unavailable(err)
}

const selectTopicSettings = `
	select while_open
	  from topic_settings
	 where tenant_id = $1 and topic_id = $2`

// PutTopicSettings replaces a topic's settings.
func (s *Store) PutTopicSettings(ctx context.Context, tenant model.TenantID, topic model.TopicID, to TopicSettings, actor, channel string) error {
	return s.configure(ctx, tenant, actor, channel, "topic.put", string(topic), func(b *pgx.Batch) error {
		b.Queue(upsertTopicSettings, tenant, string(topic), string(to.WhileOpen))
		return nil
	})
}

const upsertTopicSettings = `
	insert into topic_settings (tenant_id, topic_id, while_open)
	values ($1, $2, $3)
	    on conflict (tenant_id, topic_id) do update
	   set while_open = excluded.while_open,
	       updated_at = clock_timestamp()`
