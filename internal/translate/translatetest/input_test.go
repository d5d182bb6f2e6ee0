package translatetest

import (
	"reflect"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

type nested struct{ Words []string }

func TestMemoKeyCheckFindsFaultsAtAnyDepth(t *testing.T) {
	type (
		clean  struct{ Policy *model.TrafficPolicy }
		listed struct{ Names *model.List[string] }
		bare   struct{ Words []string }
		hidden struct {
			Deep *struct{ Table map[string]int }
		}
		locked  struct{ Lock *sync.Mutex }
		open    struct{ Any any }
		calling struct{ Call func() }
		within  struct{ Nested *nested }
	)
	for _, in := range []any{clean{}, listed{}, within{}} {
		require.Empty(t, faults(reflect.TypeOf(in)))
	}
	for _, in := range []any{bare{}, hidden{}, locked{}, open{}, calling{}} {
		require.NotEmpty(t, faults(reflect.TypeOf(in)), "%T", in)
	}
}
