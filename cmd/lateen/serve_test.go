package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServeRefusesADirectoryThatWasNeverThere(t *testing.T) {
	dir := t.TempDir()
	missing, state := filepath.Join(dir, "missing"), filepath.Join(dir, "state")
	require.ErrorContains(t, haveManifests(missing, state), missing)
	require.NoError(t, haveManifests(dir, state))
	require.NoError(t, os.MkdirAll(filepath.Join(state, "records"), 0o700))
	require.NoError(t, haveManifests(missing, state), "it has vanished since: its last state stays in force")
}
