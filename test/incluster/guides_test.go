package incluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// guides are those whose commands are tried, in docs/guides.
var guides = []string{"install.md", "operate.md", "migrate.md", "injection.md", "kubernetes.md", "machines.md"}

// reader types the commands of the guides as they stand there: in a shell, with kubectl, helm and
// lateen in its path.
type reader struct {
	c *cluster
	// dir is where the reader is: a directory with the charts and files of the reader's own.
	dir  string
	path string
	// commands are those of the guides; true once they were typed.
	commands map[string]bool
}

// image is what stands for IMAGE.
const image = "registry.example.com/lateen"

// newReader reads the guides.
func (c *cluster) newReader(t *testing.T) *reader {
	t.Helper()
	clients := tool.Path(t, "clients", "clients")
	r := &reader{c: c, dir: t.TempDir(), path: t.TempDir(), commands: map[string]bool{}}
	for _, name := range []string{"kubectl", "helm"} {
		script := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", clients, name)
		require.NoError(t, os.WriteFile(filepath.Join(r.path, name), []byte(script), 0o700)) //nolint:gosec // it is run
	}
	r.takeCharts(t, "../../charts", "charts")
	for _, guide := range guides {
		text, err := os.ReadFile(filepath.Join("../../docs/guides", guide))
		require.NoError(t, err)
		for _, command := range commandsIn(string(text)) {
			r.commands[command] = false
		}
	}
	return r
}

// takeCharts puts charts before the reader. They demand a version of Kubernetes, and the API server
// of tests has none.
func (r *reader) takeCharts(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.CopyFS(filepath.Join(r.dir, to), os.DirFS(from)))
	charts, err := filepath.Glob(filepath.Join(r.dir, to, "*", "Chart.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, charts)
	for _, name := range charts {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		text = demandsVersion.ReplaceAll(text, nil)
		require.NoError(t, os.WriteFile(name, text, 0o600))
	}
}

var demandsVersion = regexp.MustCompile(`(?m)^kubeVersion:.*\n`)

var (
	fence     = regexp.MustCompile("(?ms)^```([a-z]*)$\n(.*?)^```$")
	continued = regexp.MustCompile(`\\\n *`)
	isCommand = regexp.MustCompile(`^(\$ )?(kubectl|helm|lateen|crane|\{) `)
	// splitLiteral stands within a string that has two lines of code.
	splitLiteral = regexp.MustCompile("` \\+\\s+`")
	comment      = regexp.MustCompile(` +#( .*)?$`)
)

// commandsIn returns the commands in the fenced blocks of a page that say no language, without
// comments.
func commandsIn(page string) (all []string) {
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		if block[1] != "" {
			continue
		}
		for line := range strings.Lines(continued.ReplaceAllString(block[2], "")) {
			line = strings.TrimSpace(line)
			if isCommand.MatchString(line) {
				all = append(all, comment.ReplaceAllString(strings.TrimPrefix(line, "$ "), ""))
			}
		}
	}
	return all
}

// says types a command, and returns the exit code and all that is printed. The command must be one
// of the guides.
func (r *reader) says(t *testing.T, command string) (int, string) {
	t.Helper()
	require.Contains(t, r.commands, command, "no guide says so")
	r.commands[command] = true
	return r.shell(t, command)
}

// does types a command that has to end well.
func (r *reader) does(t *testing.T, command string) string {
	t.Helper()
	code, text := r.says(t, command)
	require.Zero(t, code, "%s\n%s", command, text)
	return text
}

// shell runs a command that no guide says.
func (r *reader) shell(t *testing.T, command string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(command, "IMAGE", image))
	shell.Dir = r.dir
	shell.Env = append(os.Environ(), "KUBECONFIG="+r.c.api.Kubeconfig(), "HOME="+r.dir,
		"PATH="+r.path+":"+filepath.Dir(r.c.lateen)+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	err := shell.Run()
	if exit := (*exec.ExitError)(nil); err != nil {
		require.ErrorAs(t, err, &exit, out.String())
	}
	return shell.ProcessState.ExitCode(), out.String()
}

// must runs a command that no guide says, and that has to end well.
func (r *reader) must(t *testing.T, command string) {
	t.Helper()
	code, text := r.shell(t, command)
	require.Zero(t, code, "%s\n%s", command, text)
}

// elsewhere are commands of the guides that these tests do not type, and why.
var elsewhere = map[string]string{
	"crane push bin/images/lateen registry.example.com/lateen:v1":             "there is no registry; test/images",
	"crane push bin/images/lateen-proxy registry.example.com/lateen-proxy:v1": "there is no registry; test/images",
	"crane push bin/images/lateen-cli registry.example.com/lateen-cli:v1":     "there is no registry; test/images",

	"helm install lateen-base oci://$REGISTRY/charts/base --version $VERSION -n istio-system --create-namespace": "" +
		"there is no registry; test/workflows packages the chart",
	"helm install lateen oci://$REGISTRY/charts/lateen --version $VERSION -n istio-system": "" +
		"there is no registry; test/workflows packages the chart",
	"helm install istio-ingressgateway oci://$REGISTRY/charts/gateway --version $VERSION " +
		"-n istio-ingress --create-namespace": "there is no registry; test/workflows packages the chart",
	"lateen install --image $REGISTRY/lateen:v$VERSION": "lateen install --image IMAGE is typed",
}

// TestEachCommandOfTheGuidesIsTyped: what users are told to type is tried, in the order of the
// guides, by the tests of this package.
func TestEachCommandOfTheGuidesIsTyped(t *testing.T) {
	tests, err := filepath.Glob("guide_*_test.go")
	require.NoError(t, err)
	source := ""
	for _, name := range tests {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		source += splitLiteral.ReplaceAllString(string(text), "")
	}
	for _, guide := range guides {
		text, err := os.ReadFile(filepath.Join("../../docs/guides", guide))
		require.NoError(t, err)
		commands := commandsIn(string(text))
		require.NotEmpty(t, commands, guide)
		for _, command := range commands {
			typed := elsewhere[command] != "" || strings.Contains(source, "`"+command+"`")
			require.True(t, typed, "%s: no test types %s", guide, command)
		}
	}
}
