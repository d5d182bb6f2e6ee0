package machines

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// TestNamesAreIstiods: a machine keeps its entry when it goes from one to the other.
func TestNamesAreIstiods(t *testing.T) {
	for _, c := range []struct {
		group, address, network, want string
	}{
		{"vms", "10.0.0.7", "", "vms-10.0.0.7"},
		{"vms", "10.0.0.7", "far", "vms-10.0.0.7-far"},
		{"vms", "2001:db8::7", "", "vms-2001-db8--7"},
		{strings.Repeat("g", 250), "10.0.0.7", "", strings.Repeat("g", 244) + "-10.0.0.7"},
		{"a" + strings.Repeat("-", 245), "10.0.0.7", "", "10.0.0.7"},
	} {
		m := Machine{Namespace: "a", Group: c.group, Address: netip.MustParseAddr(c.address), Network: c.network}
		require.Equal(t, c.want, m.key().Name)
		require.Empty(t, validation.IsDNS1123Subdomain(m.key().Name))
	}
}

// TestEachFieldOfATemplateGoesIntoTheEntry, but for the address, which is the machine's.
func TestEachFieldOfATemplateGoesIntoTheEntry(t *testing.T) {
	all := map[string]any{}
	spec := &networking.WorkloadEntry{
		Address: "10.9.9.9", Ports: map[string]uint32{"http": 1}, Labels: map[string]string{"a": "b"}, Network: "n",
		Locality: "r/z", Weight: 7, ServiceAccount: "sa",
	}
	fields := spec.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		has := spec.ProtoReflect().Has(fields.Get(i))
		require.True(t, has, "the template of this test lacks %s", fields.Get(i).Name())
	}
	group := &networkingv1.WorkloadGroup{Spec: networking.WorkloadGroup{Template: spec}}
	e := Machine{Namespace: "a", Group: "g", Address: netip.MustParseAddr("10.0.0.7")}.entryOf(group)
	for i := range fields.Len() {
		f := fields.Get(i)
		require.True(t, e.Spec.ProtoReflect().Has(f), string(f.Name()))
		all[string(f.Name())] = e.Spec.ProtoReflect().Get(f).Interface()
	}
	require.Equal(t, "10.0.0.7", all["address"])
	require.Equal(t, uint64(7), e.Spec.ProtoReflect().Get(fields.ByName("weight")).Uint())
	require.Equal(t, "sa", all["service_account"])

	m := Machine{Namespace: "a", Group: "g", Address: netip.MustParseAddr("10.0.0.7")}
	bare := m.entryOf(&networkingv1.WorkloadGroup{})
	require.Equal(t, "10.0.0.7", bare.Spec.GetAddress())
}
