package jstest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
)

// A test starts its own server. A published message is still there after the server is restarted.
func TestMessageOutlivesTheServer(t *testing.T) {
	server := jstest.Start(t)
	js, err := jetstream.New(server.Connect())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.1", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	url := server.URL()
	server.Restart()
	if server.URL() != url {
		t.Errorf("the server is at %s now, and was at %s", server.URL(), url)
	}
	js, err = jetstream.New(server.Connect())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), "s.1")
	if err != nil || string(msg.Data) != "kept" {
		t.Errorf("the message is %v, %v", msg, err)
	}
}

func TestClusterContinuesWithoutItsLeader(t *testing.T) {
	cluster := jstest.StartCluster(t)
	js, err := jetstream.New(cluster.Connect())
	if err != nil {
		t.Fatal(err)
	}
	patiently(t, func(ctx context.Context) error {
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3})
		return err
	})
	leader := cluster.Leader("S")
	leader.Stop()
	if next := cluster.Leader("S"); next == leader {
		t.Error("the stopped server is still the leader")
	}
	patiently(t, func(ctx context.Context) error {
		_, err := js.Publish(ctx, "s.1", []byte("kept"))
		return err
	})
	leader.Restart()
	patiently(t, func(ctx context.Context) error {
		stream, err := js.Stream(ctx, "S")
		if err != nil {
			return err
		}
		msg, err := stream.GetLastMsgForSubject(ctx, "s.1")
		if err == nil && string(msg.Data) != "kept" {
			t.Errorf("the message is %q", msg.Data)
		}
		return err
	})
}

// patiently repeats do until it succeeds. Servers do not answer while they elect a leader, which
// may take a long time on a busy machine.
func patiently(t *testing.T, do func(context.Context) error) {
	t.Helper()
	all, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		once, cancel := context.WithTimeout(all, 10*time.Second)
		err := do(once)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-all.Done():
			t.Fatal(err)
		}
	}
}
