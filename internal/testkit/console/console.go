// Package console runs commands as a person at a terminal does, for tests.
//
// It imports cli/command and cli/terminal, and nothing else of Lateen; only tests import it.
package console

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// Plain is a terminal without colours that writes to out.
func Plain(out io.Writer) *terminal.Writer {
	return terminal.New(out, func(string) string { return "" })
}

// Said runs a command line and returns its exit code and what it wrote to the standard error.
func Said(t testing.TB, root *cobra.Command, args ...string) (code int, text string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	saved := os.Stderr
	os.Stderr = write
	code = command.Run(context.Background(), root, args)
	os.Stderr = saved
	_ = write.Close()
	body, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(body)
}

// Root is the program lateen with some of its commands.
func Root(commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "lateen", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(commands...)
	return root
}
