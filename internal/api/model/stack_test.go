package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A Service is called by its first family, unless the caller has no such address and the Service a
// second one.
func TestCallerUsesTheServicesFirstFamilyItHas(t *testing.T) {
	for _, c := range []struct {
		stack Stack
		svc   Service
		want  Family
	}{
		{IPv4Stack, Service{}, AnyFamily},
		{IPv6Stack, Service{}, AnyFamily},
		{IPv4Stack, Service{Family: IPv4}, IPv4},
		{IPv6Stack, Service{Family: IPv4}, IPv4},
		{IPv4Stack, Service{Family: IPv6, TwoFamilies: true}, IPv4},
		{IPv6Stack, Service{Family: IPv4, TwoFamilies: true}, IPv6},
		{IPv6Stack, Service{Family: IPv6, TwoFamilies: true}, IPv6},
		{BothStacks, Service{Family: IPv6, TwoFamilies: true}, IPv6},
		{DualStack, Service{Family: IPv4, TwoFamilies: true}, IPv4},
	} {
		require.Equal(t, c.want, c.stack.FamilyFor(&c.svc), "%d %+v", c.stack, c.svc)
	}
}

func TestOtherAddressIsOfTheOtherFamily(t *testing.T) {
	w := Workload{Addresses: []string{"10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"}}
	require.Equal(t, "fd00::1", w.OtherAddress("10.0.0.2"))
	require.Equal(t, "10.0.0.1", w.OtherAddress("fd00::2"))
	require.Empty(t, w.OtherAddress("10.0.0.9"), "which is none of its own")
	w.Addresses = w.Addresses[:2]
	require.Empty(t, w.OtherAddress("10.0.0.1"))
}
