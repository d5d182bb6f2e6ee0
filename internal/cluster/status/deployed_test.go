package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A Gateway that is not deployed as it says has a condition that says why, only while that is so.
// Parameters that are wrong are its own mistake.
func TestAGatewaySaysWhyItIsNotDeployed(t *testing.T) {
	k := source.Key{Kind: kinds.KubernetesGateway, Namespace: "a", Name: "edge"}
	a := NewAttachments()
	changed := 0
	a.listen(func(source.Key) { changed++ })
	require.False(t, a.Deployed(k, model.Condition{Reason: "DeploymentFailed"}), "it is not known")
	a.Compiled([]AttachmentChange{{Key: k, Status: &model.GatewayAPIStatus{
		Meta: model.Meta{Kind: kinds.KubernetesGateway}, Accepted: model.Condition{Status: true, Reason: "Accepted"},
		Programmed: model.Condition{Status: true, Reason: "Programmed"},
	}}})
	a.Applied([]source.Change{{Key: k, Object: &metav1.ObjectMeta{Generation: 3}}})

	live := &liveAttachment{}
	write := func() []metav1.Condition {
		o, _ := a.get(k)
		status, _, err := live.with(o, time.Unix(1000, 0))
		require.NoError(t, err)
		live.Status.Conditions = status["conditions"].([]metav1.Condition)
		return live.Status.Conditions
	}
	require.Nil(t, meta.FindStatusCondition(write(), deployedCondition))
	before := changed
	failure := model.Condition{Reason: "ManagedElsewhere", Message: "another manager has it"}
	require.True(t, a.Deployed(k, failure))
	require.False(t, a.Deployed(k, failure), "it is not new")
	require.Equal(t, before+1, changed, "the status is written again")
	c := meta.FindStatusCondition(write(), deployedCondition)
	require.Equal(t, metav1.ConditionFalse, c.Status)
	require.Equal(t, int64(3), c.ObservedGeneration)
	require.Equal(t, "Accepted", meta.FindStatusCondition(write(), "Accepted").Reason)

	require.True(t, a.Deployed(k, model.Condition{Reason: "InvalidParameters", Message: "there is no ConfigMap p"}))
	accepted := meta.FindStatusCondition(write(), "Accepted")
	require.Equal(t, metav1.ConditionFalse, accepted.Status)
	require.Equal(t, "InvalidParameters", accepted.Reason)

	require.True(t, a.Deployed(k, model.Condition{}))
	require.Nil(t, meta.FindStatusCondition(write(), deployedCondition))
	require.True(t, meta.IsStatusConditionTrue(write(), "Accepted"))
}
