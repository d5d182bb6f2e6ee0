package workflows

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/perf/lab"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

const root = "../.."

// workflow has the fields of a workflow that name something of the repository.
type workflow struct {
	Jobs map[string]struct {
		Steps []struct {
			Name, Uses, Run  string
			WorkingDirectory string `json:"working-directory"`
		}
	}
}

// script is a text with shell commands, and where it stands.
type script struct{ at, text string }

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// steps are the commands of all workflows.
func steps(t *testing.T) (all []script) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		require.NoError(t, err)
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(read(t, name)), &w), name)
		require.NotEmpty(t, w.Jobs, name)
		for job, j := range w.Jobs {
			for _, s := range j.Steps {
				at := fmt.Sprintf("%s: job %s, step %q", name, job, s.Name)
				require.True(t, (s.Uses == "") != (s.Run == ""), at)
				require.Empty(t, s.WorkingDirectory, "%s: paths are those of the repository", at)
				all = append(all, script{at, s.Run})
			}
		}
	}
	return all
}

// scripts are the Makefile, all scripts, and the commands of all workflows, with each command in
// one line.
func scripts(t *testing.T) []script {
	t.Helper()
	all := append(steps(t), script{"Makefile", read(t, "Makefile")})
	files, err := filepath.Glob(filepath.Join(root, "hack/*.sh"))
	require.NoError(t, err)
	for _, file := range files {
		name := "hack/" + filepath.Base(file)
		all = append(all, script{name, read(t, name)})
	}
	for i := range all {
		all[i].text = strings.ReplaceAll(all[i].text, "\\\n", " ")
	}
	return all
}

var (
	comment  = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	target   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	file     = regexp.MustCompile(`(?:^|\s|"|\$\(CURDIR\)/)((?:\./)?(?:hack|test|examples|docs)/[\w./-]+)`)
	calls    = regexp.MustCompile(`(?:bin/lateen|\$\(BIN\)) +([a-z][^\n]*)`)
	end      = regexp.MustCompile(`[|;>&]|\)$`)
	longFlag = regexp.MustCompile(`(?:^|\s|\+)--([a-z][a-z-]*)`)
	word     = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// TestTargetsExist: what workflows have make do is in the Makefile.
func TestTargetsExist(t *testing.T) {
	var targets []string
	for _, m := range target.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets = append(targets, m[1])
	}
	require.Contains(t, targets, "history")
	n := 0
	for _, s := range scripts(t) {
		for line := range strings.Lines(comment.ReplaceAllString(s.text, "")) {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "make" {
				continue
			}
			for _, w := range words[1:] {
				if word.MatchString(w) {
					require.Contains(t, targets, w, "%s: %s", s.at, line)
					n++
				}
			}
		}
	}
	require.Greater(t, n, 1)
}

// TestFilesExist: scripts can be run, and all files stand where workflows look for them.
func TestFilesExist(t *testing.T) {
	found := 0
	for _, s := range steps(t) {
		for _, m := range file.FindAllStringSubmatch(s.text, -1) {
			info, err := os.Stat(filepath.Join(root, m[1]))
			require.NoError(t, err, s.at)
			if strings.HasPrefix(m[1], "hack/") {
				require.NotZero(t, info.Mode()&0o111, "%s: %s cannot be run", s.at, m[1])
			}
			found++
		}
	}
	require.NotZero(t, found)
}

// call is a command line of lateen.
type call struct {
	at    string
	words []string // the names of commands
	flags []string
}

// lateenCalls are the command lines of lateen in all scripts.
func lateenCalls(t *testing.T) (all []call) {
	t.Helper()
	for _, s := range scripts(t) {
		for _, m := range calls.FindAllStringSubmatch(comment.ReplaceAllString(s.text, ""), -1) {
			line := m[1]
			if at := end.FindStringIndex(line); at != nil {
				line = line[:at[0]]
			}
			c := call{at: s.at + ": lateen " + line}
			for _, w := range strings.Fields(line) {
				if !word.MatchString(w) {
					break
				}
				c.words = append(c.words, w)
			}
			for _, f := range longFlag.FindAllStringSubmatch(line, -1) {
				c.flags = append(c.flags, f[1])
			}
			all = append(all, c)
		}
	}
	return all
}

// TestCommandsExist: what workflows, scripts and the Makefile have lateen do is a command of its
// with these flags, by the help of both programs.
func TestCommandsExist(t *testing.T) {
	if testing.Short() {
		t.Skip("builds lateen")
	}
	lateenserve.LookAtSources(t)
	dir := t.TempDir()
	lateen, err := lateenserve.BuildCommands(dir)
	require.NoError(t, err)
	_, err = lateenserve.BuildLoadTest(dir)
	require.NoError(t, err)
	found := lateenCalls(t)
	require.True(t, slices.ContainsFunc(found, func(c call) bool {
		return slices.Equal(c.words, []string{"perf", "lab"}) && slices.Contains(c.flags, "scale")
	}), "%v", found)
	for _, c := range found {
		help, err := exec.Command(lateen, append(slices.Clone(c.words), "--help")...).CombinedOutput()
		require.NoError(t, err, "%s: %s", c.at, help)
		require.Regexp(t, `(?m)^  lateen `+strings.Join(c.words, " ")+`( |$)`, string(help), c.at)
		for _, f := range c.flags {
			require.Regexp(t, `(?m)^ +(-\w, )?--`+f+`\b`, string(help), "%s: --%s", c.at, f)
		}
	}
}

// TestLabsAreAllRun by the scheduled job, which has a size for each, and by make seeds.
func TestLabsAreAllRun(t *testing.T) {
	names := strings.Join(lab.Names(), " ")
	require.Contains(t, read(t, "Makefile"), "\nLABS     ?= "+names+"\n")
	require.Contains(t, read(t, "hack/perf-history.sh"), "${LABS:-"+names+"}")
	sizes := regexp.MustCompile(`(?s)\nsizes='\n(.*?)\n'`).FindStringSubmatch(read(t, "hack/perf-history.sh"))
	require.NotNil(t, sizes)
	var sized []string
	for line := range strings.Lines(sizes[1]) {
		words := strings.Fields(line)
		require.Len(t, words, 2, line)
		sized = append(sized, words[0])
		scale, err := strconv.ParseFloat(words[1], 64)
		require.NoError(t, err, line)
		require.True(t, scale > 0 && scale <= 1, line)
	}
	require.Equal(t, lab.Names(), sized)
}

// TestVersionsAreNamedAlike by labs, which say the version of the binary, and by benchmarks: the
// history judges the figures of one version together.
func TestVersionsAreNamedAlike(t *testing.T) {
	const described = "git describe --tags --always --dirty"
	require.Contains(t, read(t, "Makefile"), "$(shell "+described)
	require.Contains(t, read(t, "hack/bench.sh"), `echo "commit: $(`+described+`)"`)
}
