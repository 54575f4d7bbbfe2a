package store

import (
	"regexp"
	"strings"
	"testing"
)

// Both forms of a statement take the same parameters, a value where the other
// has an array of them.
func TestALoneRowIsWrittenWithoutArrays(t *testing.T) {
	t.Parallel()
	s := open(t)
	conn, err := s.hot.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, statement := range map[string]rowwise{
		"insertMessages": insertMessages, "insertTurns": insertTurns, "insertCalls": insertCalls, "insertApprovals": insertApprovals,
		"insertDecisions": insertDecisions, "openAttempts": openAttempts, "closeAttempts": closeAttempts, "insertAuditRows": insertAuditRows,
		"updateTopics": updateTopics, "updateTurns": updateTurns, "updateCalls": updateCalls, "updateInputs": updateInputs,
		"updateApprovals": updateApprovals, "upsertContinuations": upsertContinuations,
	} {
		all, err := conn.Conn().Prepare(t.Context(), name+" of all", statement.all)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		one, err := conn.Conn().Prepare(t.Context(), name+" of one", statement.one)
		if err != nil {
			t.Errorf("%s of a lone row: %v\n%s", name, err, statement.one)
			continue
		}
		if arrays.MatchString(statement.one) || len(all.ParamOIDs) != len(one.ParamOIDs) || strings.Count(statement.all, "unnest(") == 0 {
			t.Errorf("%s of a lone row still has arrays, or has other parameters:\n%s", name, statement.one)
		}
	}
}

var arrays = regexp.MustCompile(`unnest|any\(|\[\]`)
