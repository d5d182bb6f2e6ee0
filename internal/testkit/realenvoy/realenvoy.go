// Package realenvoy finds the Envoy that tests run. It imports testkit/tool, and only tests import
// it.
package realenvoy

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// Binary is that of $LATEEN_ENVOY, or .tools/envoy in this directory or one above. Without one the
// test is skipped, or fails if $LATEEN_ENVOY_REQUIRED is set.
func Binary(t testing.TB) string {
	t.Helper()
	return tool.Path(t, "envoy", "envoy")
}
