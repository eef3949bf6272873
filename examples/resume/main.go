package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const runID = "trip-to-oslo"

func main() {
	dir := flag.String("dir", "", "the `directory` to keep the run in (default: a new temporary one)")
	worker := flag.Bool("worker", false, "run the agent; the example starts this process itself")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "resume: unexpected argument %q; only flags are accepted; see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := start(*dir, *worker); err != nil {
		fmt.Fprintln(os.Stderr, "resume:", err)
		os.Exit(1)
	}
}

func start(dir string, worker bool) error {
	if worker {
		return work(context.Background(), dir)
	}
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "resume-"); err != nil {
			return err
		}
	}
	return demonstrate(dir)
}

// demonstrate kills the first worker during a wait, lets a second worker finish, and shows the
// effects of both.
func demonstrate(dir string) error {
	fmt.Println("The first process books a trip. It is killed while it waits for a retry.")
	if err := runWorker(dir, "process 1", "Retrying (attempt 3/"); err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond) // no process runs
	fmt.Println("\nThe second process resumes the run.")
	if err := runWorker(dir, "process 2", ""); err != nil {
		return err
	}
	return showEffects(dir)
}

// runWorker runs a worker and prints its output. If a line contains killAt, the process
// is killed, as in a crash or a deployment.
func runWorker(dir, name, killAt string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "-worker", "-dir", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	killed := show(out, name, killAt, cmd.Process)
	err = cmd.Wait()
	if killed {
		fmt.Printf("%s │ killed\n", name)
		return nil
	}
	return err
}

func show(out io.Reader, name, killAt string, p *os.Process) (killed bool) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Printf("%s │ %s\n", name, lines.Text())
		if killAt != "" && strings.Contains(lines.Text(), killAt) {
			killed = p.Kill() == nil
		}
	}
	return killed
}

// showEffects counts the external effects of the tools: each tool writes a line each time
// it runs.
func showEffects(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, effectsFile))
	if err != nil {
		return err
	}
	counts := make(map[string]int)
	for _, line := range strings.Fields(string(data)) {
		counts[line]++
	}
	fmt.Println("\nExternal effects of the tools in both processes:")
	for _, effect := range []string{"flight-booked", "payment-refused", "payment-made", "mail-sent"} {
		fmt.Printf("  %-16s %d×\n", effect, counts[effect])
	}
	if counts["flight-booked"] != 1 || counts["payment-made"] != 1 || counts["mail-sent"] != 1 {
		return errors.New("something was lost or repeated")
	}
	fmt.Printf("Nothing was lost, and nothing that had succeeded was repeated. The run is in %s.\n", dir)
	return nil
}
