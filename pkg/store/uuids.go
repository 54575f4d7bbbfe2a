package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerUUIDs lets a []string be a uuid[] parameter: our ids are text in Go
// and uuids in the database. A cast in the statement would do the same, but
// an array that is cast is cast again for each row that it is compared with.
func registerUUIDs(_ context.Context, conn *pgx.Conn) error {
	element := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: textUUIDCodec{}}
	conn.TypeMap().RegisterType(element)
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: element},
	})
	return nil
}

// textUUIDCodec is pgx's codec that also takes strings.
type textUUIDCodec struct{ pgtype.UUIDCodec }

// PlanEncode adds strings to what the codec takes.
func (c textUUIDCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(string); ok && format == pgtype.BinaryFormatCode {
		return encodeTextUUID{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

type encodeTextUUID struct{}

// Encode appends the 16 bytes of a UUID.
func (encodeTextUUID) Encode(value any, buf []byte) ([]byte, error) {
	id, err := uuid.Parse(value.(string))
	if err != nil {
		return nil, fmt.Errorf("not a UUID: %w", err)
	}
	return append(buf, id[:]...), nil
}
