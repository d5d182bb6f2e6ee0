package intercept

import (
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// validate asks as a user whether the Pod's connections come to the proxy.
func (h *host) validate(uid int, o Options, pod netip.Addr) (err error) {
	h.inside(func() {
		_, _, _ = unix.Syscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0)
		_, _, _ = unix.Syscall(unix.SYS_SETFSGID, uintptr(uid), 0, 0)
		err = Validate(h.t.Context(), o, pod)
	})
	return err
}

// TestRulesOfAPluginAreValidated in real network namespaces, by both families.
func TestRulesOfAPluginAreValidated(t *testing.T) {
	pod, _ := pair(t)
	short := parsed(t, "-i * -b * -u 1337 --run-validation --skip-rule-apply --probe-timeout 250ms")
	long := parsed(t, "-i * -b * -u 1337 --run-validation --skip-rule-apply --probe-timeout 1m")
	require.True(t, short.KeepRules && short.Validates)
	for _, own := range []netip.Addr{pod4, pod6} {
		err := pod.validate(1337, short, own)
		require.ErrorIs(t, err, ErrNotRedirected)

		waits := make(chan error, 1)
		go func() { waits <- pod.validate(1337, long, own) }()
		require.NoError(t, Apply(short, int(pod.ns)), "a plugin may be late")
		require.NoError(t, <-waits)
		require.NoError(t, pod.validate(1337, long, own))

		require.ErrorIs(t, pod.validate(1000, short, own), ErrNotRedirected, "another user's calls are left alone")
		none := short
		none.None = true
		require.NoError(t, Apply(none, int(pod.ns)))
	}
}

// TestRulesAreNotValidatedBesideAProxy: its ports are taken, which says nothing of the rules.
func TestRulesAreNotValidatedBesideAProxy(t *testing.T) {
	pod, _ := pair(t)
	pod.answer("proxy", "tcp", ":15006")
	err := pod.validate(1337, parsed(t, "-u 1337"), pod4)
	require.ErrorContains(t, err, "want no other process at the proxy's ports")
	require.NotErrorIs(t, err, ErrNotRedirected)
}

func TestAnInterruptionSaysNothingOfTheRules(t *testing.T) {
	pod, _ := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pod.inside(func() {
		err := Validate(ctx, parsed(t, "-u 1337"), pod4)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, ErrNotRedirected)
	})
}

func TestThePodsAddressesAreOneOfEachFamily(t *testing.T) {
	pod, _ := pair(t)
	pod.inside(func() {
		all, err := PodAddresses()
		require.NoError(t, err)
		require.ElementsMatch(t, []netip.Addr{pod4, pod6}, all)
	})
	alone := newHost(t)
	alone.inside(func() {
		_, err := PodAddresses()
		require.ErrorContains(t, err, "want one beside loopback")
	})
}
