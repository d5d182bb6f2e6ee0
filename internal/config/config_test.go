package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func TestDefaultsAreIstios(t *testing.T) {
	c, err := FromEnv(lookup(nil))
	require.NoError(t, err)
	require.Equal(t, Config{
		DebounceAfter: 100 * time.Millisecond, DebounceMax: 10 * time.Second, EDSDebounce: true, MaxRecvMsgSize: 4 << 20,
	}, c)
}

func TestVariablesAreRead(t *testing.T) {
	c, err := FromEnv(lookup(map[string]string{
		"PILOT_DEBOUNCE_AFTER": "2.5s", "PILOT_DEBOUNCE_MAX": "30s", "PILOT_ENABLE_EDS_DEBOUNCE": "false",
		"PILOT_PUSH_THROTTLE": "100", "PILOT_MAX_REQUESTS_PER_SECOND": "12.5",
	}))
	require.NoError(t, err)
	require.Equal(t, Config{
		DebounceAfter: 2500 * time.Millisecond, DebounceMax: 30 * time.Second, PushThrottle: 100, MaxRequestsPerSecond: 12.5, MaxRecvMsgSize: 4 << 20,
	}, c)
}

func TestABadValueIsNamed(t *testing.T) {
	for name, value := range map[string]string{
		"PILOT_DEBOUNCE_AFTER": "100", "PILOT_ENABLE_EDS_DEBOUNCE": "maybe", "PILOT_PUSH_THROTTLE": "-1", "PILOT_MAX_REQUESTS_PER_SECOND": "NaN",
	} {
		_, err := FromEnv(lookup(map[string]string{name: value}))
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, value)
		require.ErrorContains(t, err, "want")
	}
}
