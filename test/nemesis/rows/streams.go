package rows

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// LoseStreams ends the leases of the model loop's live turns of which no more
// than this is left.
func LoseStreams(ctx context.Context, url string, left time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, loseStreams, left.Milliseconds())
	return err
}

const loseStreams = `
	update turns
	   set live_until = clock_timestamp()
	 where sink_type = 'model' and live_until between clock_timestamp() and clock_timestamp() + $1 * interval '1 millisecond'`
