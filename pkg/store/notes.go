package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/model"
)

// Notes reads what the model is to be told after turns: the inputs that
// people changed and approved. A turn without any is left out.
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
	var input []byte
	_, err = pgx.ForEachRow(rows, []any{&turn, &toolCallID, &tool, &input}, func() error {
		out[turn] = append(out[turn], model.EditNote(toolCallID, tool, input))
		return nil
	})
	return out, unavailable(err)
}

const selectEdits = `
	select c.turn_id::text, c.tool_call_id, c.tool, c.input
	  from calls c
	  join approvals a using (tenant_id, call_id)
	 where c.tenant_id = $1 and c.turn_id = any($2::text[]::uuid[]) and c.edited and a.state = 'approved'
	 order by c.turn_id, c.part`
