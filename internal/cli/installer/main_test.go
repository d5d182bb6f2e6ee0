package installer

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// said runs the command and returns its exit code and what it wrote to the standard error.
func said(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	saved := os.Stderr
	os.Stderr = write
	code = command.Run(context.Background(), newRoot(), args)
	os.Stderr = saved
	require.NoError(t, write.Close())
	body, err := io.ReadAll(read)
	require.NoError(t, err)
	return code, string(body)
}

func TestMistakesInTheCommandLineAreTold(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"manifest", "--image", "a b"}, "want the image of the control plane"},
		{[]string{"manifest", "--image", "i", "--revision", "UP"}, "want a name of small letters"},
		{[]string{"manifest", "--image", "i", "--replicas", "0"}, "want 1 or more"},
		{[]string{"manifest", "--image", "i", "--proxy-image", "proxyv2"}, "want an image with its registry"},
		{[]string{"install", "--image", "i", "--namespace", "A"}, "want a name of small letters"},
		{[]string{"uninstall", "--revision", "UP"}, "want a name of small letters"},
		{[]string{"precheck", "-o", "xml"}, "want table or json"},
		{[]string{"tag", "set", "UP", "--revision", "v1"}, `"UP": want a name of small letters, digits and dashes, 43`},
		{[]string{"tag", "set", "prod"}, `required flag(s) "revision" not set`},
		{[]string{"tag", "set", "--revision", "v1"}, "NAME is missing: want lateen tag set NAME --revision REVISION"},
		{[]string{"tag", "remove", "a", "b"}, `"b" is one argument too many`},
		{[]string{"tag", "list", "-o", "xml"}, "want table, json or yaml"},
		{[]string{"tag", "move"}, `"move" is no command of lateen tag`},
		{[]string{"workload", "configure", "vms"}, `required flag(s) "output-dir" not set`},
		{[]string{"workload", "configure", "-d", "d"}, "no WorkloadGroup is named"},
		{[]string{"workload", "configure", "a", "b", "-d", "d"}, `"b" is one argument too many`},
		{[]string{"workload", "configure", "a", "-d", "d", "--address", "x"}, "want an IP address"},
		{[]string{"workload", "configure", "a", "-d", "d", "--token-duration", "1m"}, "want 10m0s or more"},
		{[]string{"upgrade", "--timeout", "soon"}, "want a time, as 30s or 5m"},
		{[]string{"manifest", "more"}, `"more" is one argument too many: want lateen manifest`},
	} {
		code, text := said(t, c.args...)
		require.Equal(t, command.ExitUsage, code, "%v: %s", c.args, text)
		require.Contains(t, text, c.want)
		require.Regexp(t, `See 'lateen[a-z -]* --help'\.\n$`, text)
	}
}

// TestWrongValuesAreTold: all at once, and nothing is printed.
func TestWrongValuesAreTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte("pilot: {autoscaleMax: many}\n"), 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"manifest"}, "pilot.image is empty; want the image of the control plane"},
		{[]string{"manifest", "--image", "i", "-f", file}, `pilot.autoscaleMax = "many": want a whole number`},
		{[]string{"manifest", "--image", "i", "--set", "a"}, "--set a: "},
		{[]string{"manifest", "--image", "i", "--set", "pilot.bogus=1"}, "pilot.bogus: there is no such value"},
		{[]string{"manifest", "--image", "i", "-f", "no/such/file"}, "no/such/file: no such file"},
	} {
		code, text := said(t, c.args...)
		require.Equal(t, command.ExitFailed, code, "%v: %s", c.args, text)
		require.Contains(t, text, c.want)
	}
}

// TestAClusterThatCannotBeFoundIsTold: by each command that asks one.
func TestAClusterThatCannotBeFoundIsTold(t *testing.T) {
	for _, line := range []string{
		"install", "upgrade", "diff", "verify", "uninstall", "precheck", "tag list", "tag remove prod",
		"tag set prod --revision v1", "tag generate prod --revision v1",
	} {
		code, text := said(t, append(strings.Fields(line), "--kubeconfig", "no/such/file")...)
		require.Equal(t, command.ExitFailed, code, line)
		require.Contains(t, text, "looking for the cluster: ")
	}
}

// TestHelpFits: what a command says of itself has an example, and lines that a window shows.
func TestHelpFits(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		require.NotEmpty(t, cmd.Example, cmd.CommandPath())
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.UsageString(), "\n") {
			assert.LessOrEqual(t, utf8.RuneCountInString(line), command.HelpWidth, "%s: %s", cmd.CommandPath(), line)
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newRoot())
}
