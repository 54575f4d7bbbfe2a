package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Notes reads what the model is to be told after turns: the inputs that
// people changed. A turn without any is left out.
func (s *Store) Notes(ctx context.Context, tenant model.TenantID, turns ...model.TurnID) (map[model.TurnID][]model.Note, error) {
	ids := make([]string, len(turns))
	for i, id := range turns {
		ids[i] = string(id)
	}
	rows, err := s.pool.Query(ctx, selectEdits, tenant, ids)
	if err != nil {
		return nil, unavailable(err)
	}
	out := map[model.TurnID][]model.Note{}
	var turn model.TurnID
	var toolCallID, tool string
	_, err = pgx.ForEachRow(rows, []any{&turn, &toolCallID, &tool}, func() error {
		out[turn] = append(out[turn], model.EditNote(tool, toolCallID))
		return nil
	})
	return out, unavailable(err)
}

const selectEdits = `
	select c.turn_id::text, c.tool_call_id, c.tool
	  from calls c
	 where c.tenant_id = $1 and c.turn_id = any($2::uuid[]) and c.edited
	 order by c.turn_id, c.part`
