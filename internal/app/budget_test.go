package app

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestBudgetsOfNamespacesHoldAtOnce: though nothing changes for proxies with one.
func TestBudgetsOfNamespacesHoldAtOnce(t *testing.T) {
	r := newRig(t, nil)
	r.pipeline.o.Config.ChangeWarnsAt = 7
	shop := &corev1.Namespace{}
	shop.Name, shop.Annotations = "shop", map[string]string{kinds.RefusedAtAnnotation: "100"}
	before := r.flush()
	require.Equal(t, before, r.deliver(source.Change{
		Key: source.Key{Kind: kinds.Namespace, Name: "shop"}, Object: shop,
	}), "nothing is new for proxies")
	require.Equal(t, model.ChangeBudget{Warns: 7, Refuses: 100}, r.pipeline.changeBudget("shop"))
	require.Equal(t, model.ChangeBudget{Warns: 7}, r.pipeline.changeBudget("other"))
}
