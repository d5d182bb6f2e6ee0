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

// Child is a control plane that is run here, by a command, while the mesh is in an API server.
type Child struct {
	target  string
	command []string
	scrape  *measure.Scrape // nil: nobody knows where
	*children
}

// NewChild returns a control plane that a command runs, and that then serves xDS at target.
func NewChild(command []string, target string, scrape *measure.Scrape) *Child {
	return &Child{target: target, command: command, scrape: scrape, children: newChildren()}
}

// Shell is a command as a shell reads it. The shell becomes the command, so that it is the command's process that is looked at.
func Shell(command string) []string { return []string{"sh", "-c", "exec " + command} }

// begin starts it, and returns when it listens.
func (c *Child) begin(ctx context.Context) error {
	if err := c.start(exec.Command(c.command[0], c.command[1:]...)); err != nil {
		return err
	}
	return c.awaitListening(ctx)
}

// listens is how long is waited between two attempts to connect.
const listens = 20 * time.Millisecond

func (c *Child) awaitListening(ctx context.Context) error {
	ticker := time.NewTicker(listens)
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

// restart ends it and starts it again.
func (c *Child) restart(ctx context.Context) error {
	if err := c.endAndKeep(ctx, c.scrape); err != nil {
		return err
	}
	return c.start(exec.Command(c.command[0], c.command[1:]...))
}

// name is that of the program, where it can be seen in the command.
func (c *Child) name() string {
	words := strings.Fields(strings.TrimPrefix(strings.Join(c.command, " "), "sh -c exec "))
	for _, w := range words {
		if w != "env" && !strings.Contains(w, "=") {
			return filepath.Base(w)
		}
	}
	return c.command[0]
}
