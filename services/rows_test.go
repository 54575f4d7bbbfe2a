package services

import (
	"context"
	"fmt"

	"github.com/countersign/countersign/internal/cluster/testcluster"
)

// hinted tells whether a call's hint was published and marked.
func (d *deployment) hinted(ctx context.Context, call string) error {
	n, err := testcluster.One[int](ctx, d.Deployment, `select published from calls where call_id = $1`, call)
	if err == nil && n == 0 {
		err = fmt.Errorf("call %s is not hinted at", call)
	}
	return err
}
