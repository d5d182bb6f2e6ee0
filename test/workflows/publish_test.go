package workflows

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

const (
	registry = "registry.example.com/mesh"
	version  = "v1.2.3"
)

// digest is what the stand-in for crane says of everything that is pushed.
var digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)

// publisher is a checkout with a tag, in which hack/publish.sh is run. In place of make, crane,
// helm and cosign it has scripts that write down how they were called.
type publisher struct {
	t                    *testing.T
	dir, checkout, tools string
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	for _, program := range []string{"git", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("there is no ", program)
		}
	}
	dir := t.TempDir()
	p := &publisher{t: t, dir: dir, checkout: filepath.Join(dir, "checkout"), tools: filepath.Join(dir, "tools")}
	require.NoError(t, os.Mkdir(p.tools, 0o755))
	for _, name := range []string{"hack", "charts"} {
		require.NoError(t, os.CopyFS(filepath.Join(p.checkout, name), os.DirFS(filepath.Join(root, name))))
	}
	require.NoError(t, os.WriteFile(filepath.Join(p.checkout, ".gitignore"), []byte("/bin/\n"), 0o600))
	p.git("init", "--quiet")
	p.git("add", "-A")
	p.commit()
	p.git("tag", version)
	for _, name := range []string{"make", "helm", "cosign"} {
		p.standIn(name, "")
	}
	p.standIn("crane", "echo "+registry+"/some@"+digest)
	for _, name := range []string{"git", "env", "bash", "dirname", "rm", "mkdir", "cp", "grep", "sed"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		path, err = filepath.Abs(path)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(p.tools, name)))
	}
	return p
}

func (p *publisher) git(args ...string) { does(p.t, p.checkout, "git", args...) }

func (p *publisher) commit() {
	p.git("-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--allow-empty",
		"-m", "a version")
}

// standIn makes a program that writes down its command line, and then does something.
func (p *publisher) standIn(name, does string) {
	p.t.Helper()
	text := fmt.Sprintf("#!/bin/sh\necho %s \"$@\" >>%s\n%s\n", name, p.log(), does)
	require.NoError(p.t, os.WriteFile(filepath.Join(p.tools, name), []byte(text), 0o700)) //nolint:gosec // it is run
}

func (p *publisher) log() string { return filepath.Join(p.dir, "log") }

// publish runs the script with the stand-ins alone in its path.
func (p *publisher) publish(args ...string) (said, wrong string, err error) {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(p.log(), nil, 0o600))
	cmd := exec.Command(filepath.Join(p.checkout, "hack/publish.sh"), args...)
	cmd.Env = append(os.Environ(), "PATH="+p.tools, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	err = cmd.Run()
	return out.String(), errors.String(), err
}

// called are the command lines that the stand-ins have written down.
func (p *publisher) called() string {
	p.t.Helper()
	text, err := os.ReadFile(p.log())
	require.NoError(p.t, err)
	return string(text)
}

// refused has the script end with a message before it runs anything.
func (p *publisher) refused(message string, args ...string) {
	p.t.Helper()
	_, wrong, err := p.publish(args...)
	require.Error(p.t, err, wrong)
	require.Contains(p.t, wrong, message)
	require.Empty(p.t, p.called())
}

const commands = "testdata/publish/commands.golden"

// TestPublishPrintsItsCommands: --dry-run says each command and runs none, also without the tools
// and the tag.
func TestPublishPrintsItsCommands(t *testing.T) {
	p := newPublisher(t)
	p.git("tag", "--delete", version)
	require.NoError(t, os.Remove(filepath.Join(p.tools, "cosign")))
	said, wrong, err := p.publish("--dry-run", registry, version)
	require.NoError(t, err, wrong)
	require.Empty(t, p.called())
	require.NoDirExists(t, filepath.Join(p.checkout, "bin"))
	golden.File(t, commands, said)
}

// TestPublishRunsWhatItPrints, in this order, and signs the digest that crane has said.
func TestPublishRunsWhatItPrints(t *testing.T) {
	p := newPublisher(t)
	said, wrong, err := p.publish(registry, version)
	require.NoError(t, err, wrong)
	want, ran := strings.ReplaceAll(read(t, "test/workflows/"+commands), "@DIGEST", "@"+digest), ""
	require.Equal(t, want, said)
	for line := range strings.Lines(want) {
		if name, _, _ := strings.Cut(line, " "); strings.Contains("make crane helm cosign", name) {
			ran += line
		}
	}
	require.Equal(t, ran, p.called())
}

// TestPublishStopsAtAFailure of any program: nothing is run after it.
func TestPublishStopsAtAFailure(t *testing.T) {
	p := newPublisher(t)
	for name, last := range map[string]string{
		"make": "make release-check", "helm": "helm package bin/charts/base ", "crane": "crane push bin/images/lateen ",
		"cosign": "cosign sign --yes --recursive " + registry + "/lateen@" + digest,
	} {
		path := filepath.Join(p.tools, name)
		works, err := os.ReadFile(path)
		require.NoError(t, err)
		p.standIn(name, "exit 3")
		_, wrong, err := p.publish(registry, version)
		require.Error(t, err, wrong)
		called := strings.Split(strings.TrimSpace(p.called()), "\n")
		require.True(t, strings.HasPrefix(called[len(called)-1], last), "%s fails, and then: %s", name, called)
		require.NoError(t, os.WriteFile(path, works, 0o700)) //nolint:gosec // it is run
	}
	p.standIn("crane", "echo pushed")
	_, wrong, err := p.publish(registry, version)
	require.Error(t, err)
	require.Contains(t, wrong, "printed no digest: pushed")
	require.NotContains(t, p.called(), "cosign")
}

// TestPublishSaysWhatIsMissing, and what to do, before it runs anything.
func TestPublishSaysWhatIsMissing(t *testing.T) {
	p := newPublisher(t)
	p.refused("REGISTRY is empty; want make publish REGISTRY=")
	for _, wrong := range []string{"oci://" + registry, registry + "/", "registry.example.com/Mesh", "a b", "$(id)"} {
		p.refused("REGISTRY = "+wrong+": want a host", wrong, version)
	}
	for _, wrong := range []string{"main", "1.2.3", "v1.2", "v01.2.3", "v1.2.3+1", "v1.2.3$(id)"} {
		p.refused("VERSION = "+wrong+": want a tag such as v1.2.3", registry, wrong)
	}
	p.refused("there is no tag v1.2.4: run git tag v1.2.4", registry, "v1.2.4")
	untracked := filepath.Join(p.checkout, "untracked")
	require.NoError(t, os.WriteFile(untracked, nil, 0o600))
	p.refused("commit or remove them", registry, version)
	require.NoError(t, os.Remove(untracked))
	for _, name := range []string{"crane", "helm", "cosign"} {
		path := filepath.Join(p.tools, name)
		require.NoError(t, os.Rename(path, path+".away"))
		p.refused(name+" is not installed: run make publish-tools", registry, version)
		require.NoError(t, os.Rename(path+".away", path))
	}
	p.commit()
	p.refused("is of another commit: run git checkout "+version, registry, version)
}

// TestPublishedChartsNameTheImages packages the charts with Helm, and renders them without an image
// of the user's.
func TestPublishedChartsNameTheImages(t *testing.T) {
	clients, err := filepath.Abs(tool.Path(t, "clients", "clients"))
	require.NoError(t, err)
	p := newPublisher(t)
	p.standIn("helm", `[ "$1" = push ] || exec `+clients+` helm "$@"`)
	said, wrong, err := p.publish(registry, version)
	require.NoError(t, err, "%s%s", said, wrong)
	for _, chart := range chartNames(t) {
		archive := filepath.Join(p.checkout, "bin/charts", chart+"-1.2.3.tgz")
		shown := does(t, p.dir, clients, "helm", "show", "chart", archive)
		require.Contains(t, shown, "\nversion: 1.2.3")
		require.Contains(t, shown, "appVersion: "+version)
		rendered := does(t, p.dir, clients, "helm", "template", "name", archive, "-n", "istio-system")
		require.NotContains(t, rendered, `image: ""`)
		if chart == "lateen" {
			require.Contains(t, rendered, `image: "`+registry+"/lateen:"+version+`"`)
			require.Contains(t, rendered, `"proxy":{"image":"`+registry+"/lateen-proxy:"+version+`"}`)
		}
	}
}

// chartNames are the directories of charts.
func chartNames(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "charts/*/Chart.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		all = append(all, filepath.Base(filepath.Dir(file)))
	}
	require.NotEmpty(t, all)
	return all
}

// firsts are the first groups of all matches, in their order.
func firsts(pattern, text string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestPublishLeavesNothingOut: all images of hack/images and all charts are pushed and signed, each
// SBOM is one that make sbom writes, and what make is told to do is in the Makefile.
func TestPublishLeavesNothingOut(t *testing.T) {
	said, makefile := read(t, "test/workflows/"+commands), read(t, "Makefile")
	built := firsts(`(?m)^\t\{"(lateen[a-z-]*)", "`, read(t, "hack/images/write.go"))
	require.NotEmpty(t, built)
	require.Equal(t, built, firsts(`crane push bin/images/\S+ `+registry+`/(\S+):`+version, said))
	require.Equal(t, built, firsts(`cosign sign --yes --recursive `+registry+`/(\S+)@DIGEST`, said))
	charts := chartNames(t)
	pushed := `helm push bin/charts/(\S+)-1\.2\.3\.tgz oci://` + registry + `/charts\n`
	require.ElementsMatch(t, charts, firsts(pushed, said))
	require.ElementsMatch(t, charts, firsts(`cosign sign --yes `+registry+`/charts/(\S+)@DIGEST`, said))
	for _, program := range firsts(`--predicate bin/(\S+)\.cdx\.json `, said) {
		require.Contains(t, makefile, ":= bin/"+program+"\n", "make sbom")
	}
	for _, name := range firsts(`(?m)^make (\S+)`, said) {
		require.Regexp(t, `(?m)^`+name+`:`, makefile)
	}
}

// publishing is publish.yml, as far as it says who may do what.
type publishing struct {
	On struct {
		Push     struct{ Tags []string }
		Dispatch struct{ Inputs map[string]any } `json:"workflow_dispatch"`
	} `json:"true"` // what "on" is in YAML
	Permissions map[string]string
	Jobs        map[string]struct {
		Permissions map[string]string
		Steps       []struct{ Uses, Run string }
	}
}

// TestPublishWorkflowHasFewRights: it starts for a tag or by hand, only its job may sign, and what
// runs beside the script is pinned. No step has an expression in its commands, where a tag's name
// would be a command.
func TestPublishWorkflowHasFewRights(t *testing.T) {
	text := read(t, ".github/workflows/publish.yml")
	var w publishing
	require.NoError(t, yaml.Unmarshal([]byte(text), &w))
	require.Equal(t, []string{"v*"}, w.On.Push.Tags)
	require.Contains(t, w.On.Dispatch.Inputs, "registry")
	require.Empty(t, w.Permissions)
	require.Len(t, w.Jobs, 1)
	job := w.Jobs["publish"]
	require.Equal(t, map[string]string{"contents": "read", "id-token": "write"}, job.Permissions)
	calls := 0
	for _, step := range job.Steps {
		if step.Uses != "" {
			require.Regexp(t, `^[\w-]+/[\w-]+@[0-9a-f]{40}$`, step.Uses)
		}
		require.NotContains(t, step.Run, "${{")
		calls += strings.Count(step.Run, `hack/publish.sh "$REGISTRY" "$VERSION"`)
	}
	require.Equal(t, 1, calls)
	for _, action := range firsts(`uses: (.*)`, text) {
		require.Regexp(t, `^\S+ # v\d+\.\d+\.\d+$`, action, "the version of the commit")
	}
}

// TestPublishedChartsOfDocumentsExist: the commands that install from a registry name charts that
// are in charts/, by the variable REGISTRY.
func TestPublishedChartsOfDocumentsExist(t *testing.T) {
	for _, page := range []string{"README.md", "docs/guides/install.md"} {
		text := read(t, page)
		require.Regexp(t, `(?m)^REGISTRY=registry\.example\.com`, text, page)
		var named []string
		for _, chart := range firsts(`helm install \S+ oci://(\S+)`, text) {
			name, ok := strings.CutPrefix(chart, "$REGISTRY/charts/")
			require.True(t, ok, "%s: %s", page, chart)
			named = append(named, name)
		}
		require.Subset(t, named, []string{"base", "lateen"}, page)
		require.Subset(t, chartNames(t), named, page)
	}
}
