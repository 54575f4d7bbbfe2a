package localservers_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/countersign/countersign/internal/localservers/testservers"
)

func TestAKilledRedisStartsEmptyAtTheSameAddress(t *testing.T) {
	t.Parallel()
	server := testservers.PrivateRedis(t)
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	gone := server.Gone()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	<-gone
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := client.DBSize(t.Context()).Result()
	if err != nil || keys != 0 {
		t.Errorf("after the restart it holds %d keys, %v; want none", keys, err)
	}
}

func TestARestartedNATSKeepsItsStreams(t *testing.T) {
	t.Parallel()
	server := testservers.NATS(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	url := server.URL()
	config := jetstream.StreamConfig{Name: "runs", Subjects: []string{"runs.>"}}
	if _, err := stream(t, url).CreateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	if _, err := stream(t, url).Publish(ctx, "runs.one", nil); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	kept, err := stream(t, url).Stream(ctx, "runs")
	if err != nil {
		t.Fatal(err)
	}
	if messages := kept.CachedInfo().State.Msgs; messages != 1 {
		t.Errorf("after the restart it holds %d messages, want 1", messages)
	}
}

func stream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
