package kube_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/kube"
)

// A long first list is delivered in portions. One that breaks off after the first of them is read
// again, and what went meanwhile is taken back.
func TestLongFirstListIsDeliveredInChunks(t *testing.T) {
	api := shared.Server(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	const many = 1300
	var g errgroup.Group
	g.SetLimit(16)
	for i := range many {
		g.Go(func() error {
			s := service(fmt.Sprintf("s-%04d", i))
			s.Spec.ClusterIP = "None"
			_, err := c.CoreV1().Services(ns).Create(t.Context(), s, metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(t, g.Wait())

	config, gate := gated(api.Config())
	s := newSink(t)
	var gone string
	stop := s.start(kube.Options{Config: config}, func(e source.Event) {
		s.take(e)
		at := slices.IndexFunc(
			e.Changes, func(c source.Change) bool { return c.Key.Kind == kinds.Service && c.Key.Namespace == ns },
		)
		if gone != "" || at < 0 {
			return
		}
		require.Less(t, len(e.Changes), many, "a portion")
		require.False(t, s.isSynced())
		gone = e.Changes[at].Key.Name
		gate.shut()
		require.NoError(t, c.CoreV1().Services(ns).Delete(t.Context(), gone, metav1.DeleteOptions{}))
		gate.open()
	})
	defer stop()
	s.awaitSync()
	require.NotEmpty(t, gone)
	eventually(t, func() bool {
		return s.get(
			key(kinds.Service, ns, gone),
		) == nil
	}) // what was received before it broke off may have been all
	services := slices.DeleteFunc(s.in(ns), func(name string) bool { return !strings.HasPrefix(name, "Service ") })
	require.Len(t, services, many-1)
}
