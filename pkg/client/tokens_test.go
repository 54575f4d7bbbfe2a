package client

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestATokenIsNotLogged(t *testing.T) {
	t.Parallel()
	token := Token{Token: "cst_secret", Subject: "user:bob"}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("minted", "token", token)
	for _, said := range []string{log.String(), fmt.Sprint(token), fmt.Sprintf("%v %+v", token, token)} {
		if strings.Contains(said, "secret") || !strings.Contains(said, "user:bob") {
			t.Errorf("said is %q", said)
		}
	}
}
