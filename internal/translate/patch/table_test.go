package patch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/pmezard/go-difflib/difflib"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/envoyfilter"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

// base is a message of testdata/base.
type base struct {
	Context  string
	Services []model.Host
	Of       string   // of a virtual host: its table
	Ports    []uint16 // of a gateway's table: those of its services

	Listener, Cluster, Table, VirtualHost json.RawMessage
}

// patchCase is an entry of a table: what an EnvoyFilter says, and why.
type patchCase struct {
	Why     string
	Apart   bool // filters of requests are resources of their own
	Patches []json.RawMessage
}

// contexts are Istio's names of contexts.
func contextOf(name string) model.PatchContext {
	return model.PatchContext(networking.EnvoyFilter_PatchContext_value[name])
}

// TestPatches applies each case of the tables in testdata to all messages of testdata/base. The
// golden output is what differs, and what becomes of each patch.
func TestPatches(t *testing.T) {
	messages := append(readBase(t, "sidecar"), readBase(t, "gateway")...)
	tables, err := filepath.Glob("testdata/*.in.yaml")
	require.NoError(t, err)
	for _, name := range tables {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			var cases []patchCase
			require.NoError(t, yaml.UnmarshalStrict(text, &cases))
			var out bytes.Buffer
			for _, c := range cases {
				fmt.Fprintf(&out, "## %s\n\n%s\n", c.Why, c.outcome(t, messages))
			}
			golden.File(t, strings.Replace(name, ".in.yaml", ".out.txt", 1), out.String())
		})
	}
}

func readBase(t *testing.T, name string) (all []base) {
	text, err := os.ReadFile("testdata/base/" + name + ".yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &all))
	return all
}

// patches reads the patches of a case.
func (c patchCase) patches(t *testing.T) (patch.Patches, []string) {
	t.Helper()
	spec := &networking.EnvoyFilter{}
	text, err := json.Marshal(map[string]any{"configPatches": c.Patches})
	require.NoError(t, err)
	require.NoError(t, protojson.Unmarshal(text, spec), string(text))
	read, problems := envoyfilter.Read(spec, false)
	var list []patch.Patch
	for _, p := range read {
		list = append(list, patch.Patch{ConfigPatch: p, Apart: c.Apart && p.Target == model.PatchHTTPFilter})
	}
	var told []string
	for _, p := range problems {
		told = append(told, p.String())
	}
	return model.NewInterner[patch.Patch]().List(list), told
}

// outcome returns what the patches of a case come to, as Markdown.
func (c patchCase) outcome(t *testing.T, messages []base) string {
	t.Helper()
	by, told := c.patches(t)
	matched, failed := make([]int, by.Len()), map[string]bool{}
	var text strings.Builder
	for _, m := range messages {
		before, after, outcome := m.patched(t, by)
		for i, n := range outcome.Matched {
			matched[i] += n
		}
		for i, err := range outcome.Failed {
			if err != nil {
				failed[fmt.Sprintf("patch %d fails at %s: %v", i, m.name(t), err)] = true
			}
		}
		text.WriteString(diff(m.Context+" "+m.name(t), before, after))
	}
	for i := range by.Len() {
		text.WriteString(addedBy(t, by.At(i)))
	}
	var head strings.Builder
	fmt.Fprintf(&head, "matched: %v\n", matched)
	for _, line := range append(told, model.SortedDistinct(keysOf(failed))...) {
		head.WriteString(line + "\n")
	}
	return head.String() + text.String()
}

func keysOf(m map[string]bool) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

func (m base) name(t *testing.T) string {
	_, of := m.message(t)
	return of
}

// message returns the message, and its name.
func (m base) message(t *testing.T) (proto.Message, string) {
	t.Helper()
	read := func(text json.RawMessage, into proto.Message) proto.Message {
		require.NoError(t, protojson.Unmarshal(text, into))
		return into
	}
	switch {
	case m.Listener != nil:
		l := &listenerv3.Listener{}
		return read(m.Listener, l), "listener " + l.GetName()
	case m.Cluster != nil:
		c := &clusterv3.Cluster{}
		return read(m.Cluster, c), "cluster " + c.GetName()
	case m.Table != nil:
		table := &routev3.RouteConfiguration{}
		return read(m.Table, table), "table " + table.GetName()
	default:
		h := &routev3.VirtualHost{}
		return read(m.VirtualHost, h), "virtual host " + h.GetName()
	}
}

// patched returns the text of a message before and after patches.
func (m base) patched(t *testing.T, by patch.Patches) (before, after string, outcome patch.Outcome) {
	t.Helper()
	of, _ := m.message(t)
	before = translatetest.Text(t, of)
	site := patch.TableSite{
		Context: contextOf(m.Context), Name: m.Of, Ports: model.NewInterner[uint16]().List(m.Ports),
	}
	var changed proto.Message
	switch of := of.(type) {
	case *listenerv3.Listener:
		changed, outcome = patch.Listener(of, site.Context, by)
	case *clusterv3.Cluster:
		at := patch.ClusterSite{Context: site.Context, Services: model.NewInterner[model.Host]().List(m.Services)}
		changed, outcome = patch.Cluster(of, at, by)
	case *routev3.RouteConfiguration:
		site.Name = of.GetName()
		changed, outcome = patch.Table(of, site, by)
	case *routev3.VirtualHost:
		changed, outcome = patch.VirtualHost(of, site, by)
	}
	require.Equal(t, before, translatetest.Text(t, of), "what is given does not change")
	if !changed.ProtoReflect().IsValid() {
		return before, "", outcome
	}
	return before, translatetest.Text(t, changed), outcome
}

// addedBy returns what a patch adds.
func addedBy(t *testing.T, p patch.Patch) (text string) {
	t.Helper()
	show := func(name string) {
		m, err := patch.Addition(p.ConfigPatch)
		require.NoError(t, err)
		text += diff(name, "", translatetest.Text(t, m))
	}
	for _, name := range []string{"SIDECAR_INBOUND", "SIDECAR_OUTBOUND", "GATEWAY"} {
		if patch.Adds(p, contextOf(name)) {
			show(name + " added")
		}
	}
	for _, at := range []patch.TableSite{
		{Context: model.SidecarOutbound, Name: "80"}, {Context: model.GatewayContext, Name: "http.8080"},
	} {
		if patch.AddsHost(p, at) {
			show("added to table " + at.Name)
		}
	}
	if p.Apart {
		show("resource of the filter")
	}
	return text
}

// diff returns the lines that differ, with those around them.
func diff(name, before, after string) string {
	if before == after {
		return ""
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(before), B: difflib.SplitLines(after), Context: 2,
	})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("\n%s:\n```diff\n%s```\n", name, strings.TrimRight(text, "\n")+"\n")
}
