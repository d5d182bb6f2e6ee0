package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

func TestMistakesInTheCommandLineAreTold(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bogus"}, `unknown command "bogus"`},
		{[]string{"up"}, "DIR is missing: want lateen up DIR"},
		{[]string{"up", "a", "b"}, `"b" is one argument too many`},
		{[]string{"serve", "--config-dir", "d", "--kubeconfig", "f"}, "none of the others can be"},
		{[]string{"status", "-o", "xml"}, `"xml" for "-o, --output" flag: want table, wide, json or yaml`},
		{[]string{"status", "more"}, `"more" is one argument too many: want lateen status`},
		{[]string{"status", "--monitoring-address", "15014"}, "want HOST:PORT"},
		{[]string{"up", "a", "--check", "--requests", "0"}, `"0" for "--requests" flag: want 1 or more`},
		{[]string{"up", "a", "--drain", "-1s"}, "want 0s or more"},
		{[]string{"up", "a", "--log-level", "loud"}, "want debug, info, warn or error"},
		{[]string{"serve", "--config-dir", "d", "--webhook-address", ":0"}, "none of the others can be"},
		{[]string{"serve", "--webhook-failure-policy", "Maybe"}, "want Fail or Ignore"},
		{[]string{"serve", "--max-connection-age", "1ms"}, "want 0 or 1s or more"},
		{[]string{"serve", "--keepaliveMaxServerConnectionAge", "-1s"}, "want 0 or 1s or more"},
		{[]string{"perf", "compare"}, "A.json is missing: want lateen perf compare"},
		{[]string{"inject"}, `"file" not set`},
		{[]string{"inject", "-f", "x", "--proxy-image", "p"}, "want an image with its registry"},
		{[]string{"proxy-config", "p"}, "all|bootstrap|clusters|endpoints|listeners|routes|secrets is missing"},
		{[]string{"proxy-config", "p", "bogus"}, `"bogus": want one of all, bootstrap, clusters, endpoints`},
		{[]string{"pc", "cluster", "p", "--direction", "up"}, "want inbound or outbound"},
		{[]string{"pc", "cluster", "p", "--port", "0"}, "want a port from 1 to 65535"},
		{[]string{"authz", "X"}, `"X" is no command of lateen authz: want check`},
		{[]string{"describe", "X"}, `"X" is no command of lateen describe: want pod or service`},
		{[]string{"describe", "servic"}, `"servic" is no command of lateen describe: want service`},
		{[]string{"dashboard", "control-plan"}, "want control-plane"},
		{[]string{"completion", "X"}, "want bash, fish, powershell or zsh"},
		{[]string{"help", "X"}, `"X" is no command of lateen`},
		{[]string{"help", "authz", "chek"}, "want check"},
		{[]string{"perf", "endpoint"}, "want endpoints"},
		{[]string{"perf", "endpoints", "--services", "x"}, `--services "x": want a whole number`},
		{
			[]string{"perf", "endpoints", "--services", "99999999999999999999"},
			"want a whole number that is not as large",
		},
		{[]string{"perf", "endpoints", "--patience", "x"}, `--patience "x": want a time, as 30s or 5m`},
		{[]string{"perf", "endpoints", "--rate", "x"}, `--rate "x": want a number`},
		{[]string{"authz", "check"}, "WORKLOAD is missing: want lateen authz check WORKLOAD"},
		{[]string{"authz", "check", "w", "--from", "web"}, "want NAMESPACE/ACCOUNT, DOMAIN/ns/"},
		{[]string{"authz", "check", "w", "--ip", "10.0.0.0/8"}, "want an IP address"},
		{[]string{"authz", "check", "w", "--path", "admin"}, "want a path that begins with /"},
		{[]string{"authz", "check", "w", "--tcp", "--path", "/"}, "none of the others can be"},
	} {
		code, text := console.Said(t, newRoot(), c.args...)
		require.Equal(t, command.ExitUsage, code, "%v: %s", c.args, text)
		require.Contains(t, text, c.want)
		require.Regexp(t, `See 'lateen[a-z -]* --help'\.\n$`, text)
	}
}

func TestWhatFailsIsNoMistakeInTheCommandLine(t *testing.T) {
	code, text := console.Said(t, newRoot(), "up", "no/such/directory")
	require.Equal(t, command.ExitFailed, code)
	require.Equal(t, "lateen: no/such/directory: want a directory of manifests, as examples/bookinfo\n", text)
}

func TestAClusterThatCannotBeFoundIsTold(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	code, text := console.Said(t, newRoot(), "serve")
	require.Equal(t, command.ExitFailed, code)
	require.Contains(t, text, "want --kubeconfig FILE for one from outside, or --config-dir DIR")

	code, text = console.Said(t, newRoot(), "serve", "--kubeconfig", "no/such/file")
	require.Equal(t, command.ExitFailed, code)
	require.Contains(t, text, "--kubeconfig no/such/file: ")
}

// TestHelpFits: what a command says of itself has an example, and lines that a window shows.
func TestHelpFits(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
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
