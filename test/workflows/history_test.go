package workflows

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// run runs a program in a directory, without the user's configuration of git.
func run(t *testing.T, dir, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func does(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	out, err := run(t, dir, program, args...)
	require.NoError(t, err, "%s %s: %s", program, strings.Join(args, " "), out)
	return strings.TrimSpace(out)
}

// TestHistoryStaysOnItsBranch: three nights in one checkout, which the runner cleans in between as
// actions/checkout does. The branch begins empty, gets a commit where there is something new, and a
// remote that does not answer ends the job.
func TestHistoryStaysOnItsBranch(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	script, err := filepath.Abs(filepath.Join(root, "hack/history-branch.sh"))
	require.NoError(t, err)
	remote, checkout := filepath.Join(t.TempDir(), "remote"), t.TempDir()
	does(t, ".", "git", "init", "--quiet", "--bare", remote)
	does(t, checkout, "git", "init", "--quiet")
	does(t, checkout, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet",
		"--allow-empty", "-m", "a version")
	does(t, checkout, "git", "remote", "add", "origin", remote)
	lines := filepath.Join(checkout, "history-branch", "history.jsonl")
	night := func(want, add string) {
		t.Helper()
		does(t, checkout, script, "take", "history-branch")
		before, err := os.ReadFile(lines)
		if want == "" {
			require.ErrorIs(t, err, os.ErrNotExist)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, want, string(before))
		if add != "" {
			require.NoError(t, os.WriteFile(lines, []byte(want+add), 0o600))
		}
		does(t, checkout, script, "keep", "history-branch", "history: "+strings.TrimSpace(add))
	}
	night("", "one\n")
	does(t, checkout, "git", "clean", "-ffdx", "--quiet")
	night("one\n", "two\n")
	night("one\ntwo\n", "")
	require.Equal(t, "history: two\nhistory: one\nhistory: begins",
		does(t, remote, "git", "log", "--format=%s", "perf-history"))
	require.Equal(t, "history.jsonl", does(t, remote, "git", "ls-tree", "--name-only", "perf-history"))

	does(t, checkout, "git", "remote", "set-url", "origin", filepath.Join(remote, "gone"))
	_, err = run(t, checkout, script, "take", "history-branch")
	require.Error(t, err, "its history would be begun anew")
}

// TestJudgingOfTheHistory runs the tests of hack/perf-history.py.
func TestJudgingOfTheHistory(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	does(t, root, "python3", "hack/perf-history_test.py")
}
