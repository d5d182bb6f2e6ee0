package sizing

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzConstants: a file of constants is refused, or what is reckoned with it can be told.
func FuzzConstants(f *testing.F) {
	f.Add(storedJSON)
	f.Add([]byte("sidecarBytes: 1\nchange: {endpoints: {cpuSeconds: 1e-300}}"))
	f.Add([]byte("sidecarBytes: 1e308\nconnect: {bytesToSidecar: 1e308}\nchange: {endpoints: {cpuSeconds: 1}}"))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		c, err := Parse(encoded)
		if err != nil {
			return
		}
		mesh := Mesh{Sidecars: 1_000_000, Services: 100_000, Pods: 2_000_000, Seen: 1, Changes: 1000,
			Kind: c.Kinds()[0]}
		limits := Limits{Cores: 0.1, Memory: 1e300, Headroom: 1, Busy: 1e300, LastSidecar: 1 << 62, Connect: 1 << 62,
			Spare: 1}
		e, err := c.Estimate(mesh, limits)
		require.NoError(t, err)
		require.Positive(t, e.Replicas)
		require.NotEmpty(t, Rows([]Estimate{e}))
		_, err = json.Marshal(map[string]any{"constants": c, "estimate": e})
		require.NoError(t, err)
	})
}
