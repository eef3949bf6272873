// Command server is a NATS server for tests that kill and stop it. It runs until its standard
// input ends. It is built without the race detector, which tests use for the code of this
// repository: servers would take several times as long with it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// settings are those of serverSettings in the tests.
type settings struct {
	Name    string
	Port    int
	Dir     string
	Cluster int
	Routes  []string

	MaxPayload int32
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(encoded string) error {
	var set settings
	if err := json.Unmarshal([]byte(encoded), &set); err != nil {
		return err
	}
	o := &server.Options{
		ServerName: set.Name, Host: "127.0.0.1", Port: set.Port, NoLog: true, NoSigs: true,
		JetStream: true, SyncAlways: true, StoreDir: set.Dir, MaxPayload: set.MaxPayload,
	}
	if set.Cluster > 0 { // servers only use the given routes, which tests may cut
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: set.Cluster, Advertise: "127.0.0.1:1", NoAdvertise: true}
	}
	for _, route := range set.Routes {
		to, err := url.Parse(route)
		if err != nil {
			return err
		}
		o.Routes = append(o.Routes, to)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		return errors.New("the server does not accept connections")
	}
	fmt.Println(s.ClientURL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}
