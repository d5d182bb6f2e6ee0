package command_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// TestJSONHoldsNothingThatATerminalObeys prints names that a terminal would obey. They can be read
// back as they were.
func TestJSONHoldsNothingThatATerminalObeys(t *testing.T) {
	names := map[string]string{"a": "x\x1b[2J\u009b31m\u202e\x7f\U000e0001é", "b": "as it is"}
	var out strings.Builder
	require.NoError(t, command.PrintAs(&out, "json", names))
	require.NotRegexp(t, `[\p{Cf}\x00-\x09\x0b-\x1f\x7f-\x{9f}]`, out.String())
	require.Contains(t, out.String(), `\u009b31m\u202e\u007f\udb40\udc01é`)
	var read map[string]string
	require.NoError(t, json.Unmarshal([]byte(out.String()), &read))
	require.Equal(t, names, read)
}
