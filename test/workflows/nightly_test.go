package workflows

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/perf/lab"
)

// nightly is perf-history.yml, as far as it says what is run.
type nightly struct {
	On struct {
		Dispatch struct {
			Inputs map[string]struct{ Default string }
		} `json:"workflow_dispatch"`
	} `json:"true"` // what "on" is in YAML
	Jobs map[string]struct {
		Env   map[string]string
		Steps []nightlyStep
	}
}

type nightlyStep struct {
	ID, Name, Uses, Run, Shell, If string

	Env map[string]string
}

// runner is a machine with a checkout, on which the workflow is run again and again. In place of Go
// it has a script (testdata/nightly/go), which stands in for building and measuring.
type runner struct {
	t                                  *testing.T
	workflow                           nightly
	dir, checkout, remote, tools, cost string
	commits                            int
	outcomes, said                     map[string]string // of the last run, by the names of steps
}

func newRunner(t *testing.T) *runner {
	t.Helper()
	for _, program := range []string{"git", "make", "python3", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("there is no ", program)
		}
	}
	tools, err := filepath.Abs("testdata/nightly")
	require.NoError(t, err)
	dir := t.TempDir()
	r := &runner{
		t: t, dir: dir, tools: tools, cost: "1",
		checkout: filepath.Join(dir, "checkout"), remote: filepath.Join(dir, "remote"),
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, ".github/workflows/perf-history.yml")), &r.workflow))
	does(t, ".", "git", "init", "--quiet", "--bare", r.remote)
	does(t, ".", "git", "init", "--quiet", r.checkout)
	does(t, r.checkout, "git", "remote", "add", "origin", r.remote)
	require.NoError(t, os.CopyFS(filepath.Join(r.checkout, "hack"), os.DirFS(filepath.Join(root, "hack"))))
	for _, name := range []string{"Makefile", ".gitignore", "internal/perf/lab/lab.go", "test/kube/go.mod"} {
		r.write(name, read(t, name))
	}
	for _, program := range []string{"envoy", "prometheus", "rsyslogd"} {
		r.write("hack/fetch-"+program+".sh", "#!/bin/sh\nmkdir -p .tools && touch .tools/"+program+"\n")
	}
	r.commit("the first version")
	return r
}

func (r *runner) write(name, text string) {
	r.t.Helper()
	name = filepath.Join(r.checkout, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(r.t, os.WriteFile(name, []byte(text), 0o600))
}

// commit commits all files, a second after the commit before.
func (r *runner) commit(message string) (version string) {
	r.t.Helper()
	r.t.Setenv("GIT_COMMITTER_DATE", fmt.Sprintf("2026-11-25T12:00:%02dZ", r.commits))
	r.commits++
	does(r.t, r.checkout, "git", "add", "-A")
	r.commitIn(r.checkout, message)
	return does(r.t, r.checkout, "git", "describe", "--tags", "--always")
}

func (r *runner) commitIn(dir, message string) {
	r.t.Helper()
	does(r.t, dir, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--all",
		"--allow-empty", "-m", message)
}

// dispatched are the inputs of a run that somebody has started, with some set.
func (r *runner) dispatched(set map[string]string) map[string]string {
	inputs := map[string]string{}
	for name, input := range r.workflow.On.Dispatch.Inputs {
		inputs[name] = cmp.Or(set[name], input.Default)
	}
	for name := range set {
		require.Contains(r.t, inputs, name)
	}
	return inputs
}

// run runs all steps, with inputs of the workflow; by its schedule it has none. It returns what was
// measured.
func (r *runner) run(inputs map[string]string) (measured string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(r.log(), nil, 0o600))
	r.outcomes, r.said = map[string]string{}, map[string]string{}
	job := r.workflow.Jobs["measure"]
	require.NotEmpty(r.t, job.Steps)
	failed := false
	for _, step := range job.Steps {
		require.Empty(r.t, step.Shell, "%s: the test runs bash -e", step.Name)
		name := cmp.Or(step.ID, step.Name)
		switch {
		case step.Uses != "":
			require.Regexp(r.t, "^actions/checkout@", step.Uses, "the test does not know this action")
			does(r.t, r.checkout, "git", "clean", "-ffdx", "--quiet")
			continue
		case !r.holds(step.If, failed):
			r.outcomes[name] = "skipped"
			continue
		}
		out, err := r.shell(r.value(step.Run, inputs), inputs, job.Env, step.Env)
		r.outcomes[name], r.said[name] = "success", out
		if err != nil {
			r.outcomes[name], failed = "failure", true
		}
	}
	text, err := os.ReadFile(r.log())
	require.NoError(r.t, err)
	return string(text)
}

// shell runs the commands of a step, as a runner does.
func (r *runner) shell(commands string, inputs map[string]string, sets ...map[string]string) (string, error) {
	file := filepath.Join(r.dir, "step.sh")
	require.NoError(r.t, os.WriteFile(file, []byte(commands), 0o600))
	cmd := exec.Command("bash", "-e", file)
	cmd.Dir = r.checkout
	cmd.Env = []string{
		"PATH=" + r.tools + ":" + os.Getenv("PATH"), "HOME=" + r.dir, "TMPDIR=" + r.dir, "GIT_CONFIG_SYSTEM=/dev/null",
		"COST=" + r.cost, "MEASURED=" + r.log(),
	}
	for _, set := range sets {
		for key, value := range set {
			cmd.Env = append(cmd.Env, key+"="+r.value(value, inputs))
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// log is the file in which the stand-in writes what it measures.
func (r *runner) log() string { return filepath.Join(r.dir, "measured") }

var (
	expression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)
	outcome    = regexp.MustCompile(`^steps\.(\w+)\.outcome != '(\w+)'$`)
)

// value replaces the expressions in a text: inputs and literals, of which the first that is not
// empty counts.
func (r *runner) value(text string, inputs map[string]string) string {
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		for operand := range strings.SplitSeq(expression.FindStringSubmatch(e)[1], " || ") {
			name, isInput := strings.CutPrefix(operand, "inputs.")
			if !isInput {
				require.Regexp(r.t, `^'[^']*'$`, operand, "the test does not know this expression")
				return strings.Trim(operand, "'")
			}
			require.Contains(r.t, r.workflow.On.Dispatch.Inputs, name)
			if inputs[name] != "" {
				return inputs[name]
			}
		}
		return ""
	})
}

// holds is whether a step is run, by its condition.
func (r *runner) holds(condition string, failed bool) bool {
	if condition == "" {
		return !failed
	}
	always := false
	for term := range strings.SplitSeq(condition, " && ") {
		if term == "always()" {
			always = true
			continue
		}
		m := outcome.FindStringSubmatch(term)
		require.NotNil(r.t, m, "the test does not know the condition %s", term)
		require.Contains(r.t, r.outcomes, m[1], condition)
		if r.outcomes[m[1]] == m[2] {
			return false
		}
	}
	return always || !failed
}

// kept returns a file of the branch.
func (r *runner) kept(name string) string {
	r.t.Helper()
	return does(r.t, r.remote, "git", "show", "perf-history:"+name)
}

const (
	took   = "Take the history so far"
	keeps  = "Keep the history, also of a version that is worse"
	judges = "measure"
)

var good = map[string]string{took: "success", judges: "success", keeps: "success"}

// TestNightlySteps runs the steps of perf-history.yml as the workflow has them: two nights by the
// schedule, of which the second has a worse version, and a run that somebody starts for one lab.
func TestNightlySteps(t *testing.T) {
	r := newRunner(t)
	first := does(t, r.checkout, "git", "describe", "--always")
	measured := r.run(nil)
	require.Equal(t, good, r.outcomes, "%s", r.said)
	each := len(lab.Names()) + 1 // and the benchmarks
	require.Equal(t, 3*each, strings.Count(measured, "\n"), "three runs of each: %s", measured)
	require.Contains(t, measured, "kubecon at 0.02 of "+first+"\n")
	require.Equal(t, 3*each, strings.Count(r.kept("history.jsonl")+"\n", "\n"))
	require.Contains(t, r.kept("history.md"), "| "+first+" | 2026-11-25 12:00 | 3 |")
	require.Contains(t, r.kept("history/001.svg"), "<circle")

	second := r.commit("a second version")
	r.cost = "1.5"
	r.run(nil)
	require.Equal(t, map[string]string{took: "success", judges: "failure", keeps: "success"}, r.outcomes, "%s", r.said)
	require.Regexp(t, `row: CPU: 1\.5 seconds, 50 % more than `+first, r.said[judges])
	require.Contains(t, r.kept("history.md"), "worse: "+second+" (+50 %)")

	r.commit("a third version")
	measured = r.run(r.dispatched(map[string]string{"runs": "1", "labs": "dns"}))
	require.Equal(t, good, r.outcomes, "%s", r.said)
	require.Equal(t, 1, strings.Count(measured, "dns"), measured)
	require.NotContains(t, measured, "book")
	begins := does(t, r.remote, "git", "log", "--format=%s", "perf-history", "-1", "--skip=3")
	require.Equal(t, "history: begins", begins)
}

// TestNightlyOfThePast begins a history with commits of the past. One that does not build is left
// out, and what is measured afterwards stands in the order of commits.
func TestNightlyOfThePast(t *testing.T) {
	r := newRunner(t)
	first := does(t, r.checkout, "git", "describe", "--always")
	r.write("broken", "")
	broken := r.commit("a version that does not build")
	require.NoError(t, os.Remove(filepath.Join(r.checkout, "broken")))
	third := r.commit("a version that builds")
	measured := r.run(r.dispatched(map[string]string{"past": "3"}))
	require.Equal(t, good, r.outcomes, "%s", r.said)
	require.Contains(t, r.said[judges], broken+" does not build, and is left out: cmd/lateen/main.go: broken")
	require.Equal(t, 2*3*3, strings.Count(measured, "\n"), "three runs of three labs of two versions: %s", measured)
	require.Regexp(t, `(?s)\| `+first+` \| .*\| `+third+` \| `, r.kept("history.md"))
}

// TestNightlyRefusesABrokenHistory before anything is built or measured, with its line, and leaves
// the branch as it is.
func TestNightlyRefusesABrokenHistory(t *testing.T) {
	r := newRunner(t)
	r.run(r.dispatched(map[string]string{"runs": "1", "labs": "dns"}))
	require.Equal(t, good, r.outcomes, "%s", r.said)
	whole := r.kept("history.jsonl")
	other := filepath.Join(r.dir, "other")
	does(t, r.dir, "git", "clone", "--quiet", "--branch", "perf-history", r.remote, other)
	lines := strings.Count(whole, "\n") + 1
	require.NoError(t, os.WriteFile(filepath.Join(other, "history.jsonl"), []byte(whole[:len(whole)-30]), 0o600))
	r.commitIn(other, "cut")
	does(t, other, "git", "push", "--quiet")

	require.Empty(t, r.run(nil), "it is measured")
	require.Equal(t, map[string]string{took: "success", judges: "failure", keeps: "success"}, r.outcomes, "%s", r.said)
	require.Contains(t, r.said[judges], fmt.Sprintf("history.jsonl:%d: the line is cut off", lines))
	require.Contains(t, r.said[judges], "take the file back from git")
	require.NotContains(t, r.said[judges], "building")
	require.Equal(t, "cut", does(t, r.remote, "git", "log", "--format=%s", "-1", "perf-history"))
}

// TestNightlyRefusesATreeWithChanges: its version is one that nobody can check out.
func TestNightlyRefusesATreeWithChanges(t *testing.T) {
	r := newRunner(t)
	r.write("internal/perf/lab/lab.go", "package lab\n")
	require.Empty(t, r.run(nil), "it is measured")
	require.Equal(t, "failure", r.outcomes[judges], "%s", r.said)
	require.Contains(t, r.said[judges], "commit them first")
}
