package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgramsAreFoundInOrder: the one of the flag, else of the environment, else of .tools, else
// of PATH. One that is named and is no program is a mistake, though there are others.
func TestProgramsAreFoundInOrder(t *testing.T) {
	const name = "prometheus"
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Chdir(root)
	program := func(dir string) string {
		path := filepath.Join(root, dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755)) //nolint:gosec // it is a program
		return path
	}
	found := func(flag string) string {
		t.Helper()
		path, err := FindProgram(name, flag)
		require.NoError(t, err)
		return path
	}
	t.Setenv("LATEEN_PROMETHEUS", "")
	t.Setenv("PATH", filepath.Join(root, "bin"))
	_, err = FindProgram(name, "")
	require.EqualError(t, err,
		"there is no prometheus: 'make prometheus' puts it into .tools, or name one with --prometheus or "+
			"$LATEEN_PROMETHEUS")

	require.Equal(t, program("bin"), found(""), "of PATH")
	tools := filepath.Join(root, ".tools", name)
	require.NoError(t, os.MkdirAll(tools, 0o755))
	require.Equal(t, filepath.Join(root, "bin", name), found(""), "a directory is no program")
	require.NoError(t, os.Remove(tools))
	require.NoError(t, os.WriteFile(tools, nil, 0o600))
	require.Equal(t, filepath.Join(root, "bin", name), found(""), "nor is a file that cannot be run")
	require.NoError(t, os.Remove(tools))
	require.Equal(t, program(".tools"), found(""), "make has put it there")
	of := program("environment")
	t.Setenv("LATEEN_PROMETHEUS", of)
	require.Equal(t, of, found(""))
	require.Equal(t, program("flag"), found(filepath.Join("flag", name)), "as an absolute path")

	for _, flag := range []string{"no/such/file", root} {
		_, err = FindProgram(name, flag)
		require.EqualError(t, err, flag+" is not an executable file; want the path of a binary of prometheus")
	}
	t.Setenv("LATEEN_PROMETHEUS", "no/such/file")
	_, err = FindProgram(name, "")
	require.ErrorContains(t, err, "no/such/file is not an executable file")
	require.Equal(t, filepath.Join(root, "flag", name), found(filepath.Join(root, "flag", name)))
}
