package jstest_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-go/reprise/jetstream/jstest"
)

// A test starts a server for itself. What was published is there after the
// server has started again.
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

func TestClusterGoesOnWithoutItsLeader(t *testing.T) {
	cluster := jstest.StartCluster(t)
	js, err := jetstream.New(cluster.Connect())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	leader := cluster.Leader("S")
	leader.Stop()
	if next := cluster.Leader("S"); next == leader {
		t.Error("the leader that was stopped leads")
	}
	if _, err := js.Publish(t.Context(), "s.1", []byte("kept"), jetstream.WithRetryAttempts(50)); err != nil {
		t.Error(err)
	}
	leader.Restart()
}
