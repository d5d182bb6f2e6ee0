package ratelimit

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCopiesShareNothing changes a copy in all places, and the object stays as it was.
func TestCopiesShareNothing(t *testing.T) {
	of := &RateLimit{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}},
		Spec: Spec{
			Selector: &Selector{MatchLabels: map[string]string{"a": "b"}}, TargetRefs: []TargetRef{{Name: "a"}},
			Local: &Local{Limits: []LocalLimit{{Descriptor: descriptor()}}},
			Global: &Global{
				Timeout: &metav1.Duration{Duration: 1}, Descriptors: []Descriptor{descriptor()},
			},
		},
		Status: Status{Conditions: []metav1.Condition{{Type: "a"}}},
	}
	before, err := json.Marshal(of)
	require.NoError(t, err)
	c := of.DeepCopy()
	require.Equal(t, of, c)
	c.Labels["a"], c.Spec.Selector.MatchLabels["a"], c.Spec.TargetRefs[0].Name = "", "", ""
	c.Spec.Global.Timeout.Duration, c.Status.Conditions[0].Type = 2, ""
	for _, d := range []*Descriptor{&c.Spec.Local.Limits[0].Descriptor, &c.Spec.Global.Descriptors[0]} {
		m := d.Match
		d.By[0].Header, m.Paths[0].Exact, m.Methods[0], m.Headers[0].Name = "", "", "", ""
		m.Claims[0].Values[0], m.Principals[0], m.Namespaces[0] = "", "", ""
		m.Claims[0].Name = ""
	}
	after, err := json.Marshal(of)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Nil(t, (*RateLimit)(nil).DeepCopy())
}

func descriptor() Descriptor {
	return Descriptor{By: []By{{Header: "a"}}, Match: &Match{
		Paths: []StringMatch{{Exact: "a"}}, Methods: []string{"a"}, Headers: []HeaderMatch{{Name: "a"}},
		Claims: []ClaimMatch{{Name: "a", Values: []string{"a"}}}, Principals: []string{"a"}, Namespaces: []string{"a"},
	}}
}
