package state

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// A workload with a host name is an endpoint of a ServiceEntry for as long as that resolves by DNS,
// whatever it resolved by when the workload came.
func TestAHostNameIsAnEndpointWhereItIsLookedUp(t *testing.T) {
	labels := model.LabelsOf(map[string]string{"app": "vm"})
	entry := func(by model.Resolution) *model.Service {
		return &model.Service{
			Meta: model.Meta{Kind: kinds.ServiceEntry, Namespace: "default", Name: "vms"}, Host: "vms.test",
			Resolution: by, Selector: labels, Ports: []model.ServicePort{{Name: "http", Port: 80, Target: 80}},
		}
	}
	vm := &model.WorkloadEntry{
		Meta: model.Meta{Kind: kinds.WorkloadEntry, Namespace: "default", Name: "vm"}, Labels: labels,
		Address: "vm.test",
	}
	w := NewWriter()
	w.Apply([]Update{{Key: vm.Key(), Objects: []model.Object{vm}}})
	for _, by := range []model.Resolution{
		model.EDS, model.StrictDNS, model.EDS, model.LogicalDNS, model.StrictDNS, model.Passthrough, model.StrictDNS,
	} {
		svc := entry(by)
		snap, _ := w.Apply([]Update{{Key: svc.Key(), Objects: []model.Object{svc}}})
		var addresses []string
		for _, e := range snap.Endpoints(svc).All() {
			addresses = append(addresses, e.Address)
		}
		require.Equal(t, by.IsByDNS(), slices.Contains(addresses, "vm.test"), "resolution %d", by)
	}
}
