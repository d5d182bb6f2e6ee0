package controlplane

import (
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Child is a control plane that a command runs on this machine, while an API server has the mesh.
type Child struct {
	target  string
	command []string
	scrape  *measure.Scrape // nil if its metrics address is unknown
	*children
}

// NewChild returns a control plane that a command runs and that serves xDS at target.
func NewChild(command []string, target string, scrape *measure.Scrape) *Child {
	return &Child{target: target, command: command, scrape: scrape, children: newChildren()}
}

// Shell returns a command that a shell parses. The shell replaces itself by exec, so that the
// measured process is the command's.
func Shell(command string) []string { return []string{"sh", "-c", "exec " + command} }

// begin starts the command and returns when it listens.
func (c *Child) begin(ctx context.Context) error {
	if err := c.start(exec.Command(c.command[0], c.command[1:]...)); err != nil {
		return err
	}
	return c.awaitListening(ctx)
}

// dialInterval is the time between two attempts to connect.
const dialInterval = 20 * time.Millisecond

func (c *Child) awaitListening(ctx context.Context) error {
	ticker := time.NewTicker(dialInterval)
	defer ticker.Stop()
	for {
		if connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", c.target); err == nil {
			return connection.Close()
		}
		select {
		case <-ticker.C:
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Usage implements measure.Process.
func (c *Child) Usage(ctx context.Context) (measure.Usage, error) { return c.usage(ctx, c.scrape) }

// restart ends the process and starts it again.
func (c *Child) restart(ctx context.Context) error {
	if err := c.endForRestart(ctx, c.scrape); err != nil {
		return err
	}
	return c.start(exec.Command(c.command[0], c.command[1:]...))
}

// name returns the name of the program, as far as the command shows it.
func (c *Child) name() string {
	words := strings.Fields(strings.TrimPrefix(strings.Join(c.command, " "), "sh -c exec "))
	for _, w := range words {
		if w != "env" && !strings.Contains(w, "=") {
			return filepath.Base(w)
		}
	}
	return c.command[0]
}
