package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestUsageSaysWhatCobraSays: but for the breaks of lines, so that a group of commands, a global
// flag or whatever else a command gets one day does not go missing in its help.
func TestUsageSaysWhatCobraSays(t *testing.T) {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	ours := usages(root)
	root.SetUsageFunc(nil)
	theirs := usages(root)
	require.Greater(t, len(theirs), 20)
	require.Equal(t, theirs, ours)
}

// usages are the words of each command's usage, by its path.
func usages(cmd *cobra.Command) map[string][]string {
	all := map[string][]string{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		all[cmd.CommandPath()] = strings.Fields(cmd.UsageString())
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(cmd)
	return all
}
