package kinds

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachConstantHasOneLine(t *testing.T) {
	constants := map[Kind]bool{}
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Kind" {
			constants[Kind(spec.Names[0].Name)] = true
			if spec.Names[0].Name == "KubernetesGateway" {
				delete(constants, "KubernetesGateway")
				constants[KubernetesGateway] = true
			}
		}
		return true
	})
	require.NotEmpty(t, constants)
	for _, d := range All() {
		require.True(t, constants[d.Kind], "%s has no constant of its name, or two lines", d.Kind)
		delete(constants, d.Kind)
	}
	require.Empty(t, constants, "constants without a line")
}

func TestTableLinesAreComplete(t *testing.T) {
	resources := map[string]bool{}
	for _, d := range All() {
		require.NotEmpty(t, d.Versions, d.Kind)
		require.Equal(t, d.Kind.Name(), reflect.TypeOf(d.Kind.NewObject()).Elem().Name())
		resource := d.GroupVersionResource().GroupResource().String()
		require.NotEmpty(t, d.Resource)
		require.False(t, resources[resource], "%s is twice", resource)
		resources[resource] = true
		if d.LocalOnly {
			require.Zero(t, d.Watch, "%s is not watched", d.Kind)
			require.False(t, d.DependsOnMesh, "%s is not converted", d.Kind)
		}
	}
}

// Two control planes would else write the statuses of the same objects.
func TestConfigurationIsOfARevision(t *testing.T) {
	for _, d := range All() {
		require.Equal(t, d.Custom, d.Watch.Revisioned, d.Kind)
	}
}

// A kind that is read moves from one table to the other.
func TestUnreadKindsAreNotRead(t *testing.T) {
	unread := Unread()
	for kind, versions := range unread {
		for _, v := range versions {
			require.NotContains(t, Of(kind).APIVersions(), v, "%s is in both tables", kind)
		}
	}
	for kind := range Beside() {
		require.NotContains(t, unread, kind, "is it the mesh's?")
		require.Zero(t, *Of(kind), "%s is read", kind)
	}
}

// Each object of Istio's and the Gateway API that is not in force is reported.
func TestUnreadKindsOfIstioAndTheGatewayAPIAreReported(t *testing.T) {
	reported := map[string]*Descriptor{}
	resources := map[string]bool{}
	for _, d := range Reported() {
		kind, _, _ := strings.Cut(string(d.Kind), ".")
		reported[d.Group+" "+kind] = d
		require.Zero(t, *Of(d.Kind), "%s is read", d.Kind)
		require.Same(t, d, WithStatusOf(d.Kind))
		resource := d.GroupVersionResource().GroupResource().String()
		require.False(t, resources[resource], "%s is twice", resource)
		resources[resource] = true
	}
	for kind, versions := range Unread() {
		for _, v := range versions {
			group, _, _ := strings.Cut(v, "/")
			if kind == "IstioOperator" ||
				group != GatewayAPIGroup && !strings.HasSuffix(group, ".istio.io") {
				continue
			}
			d := reported[group+" "+string(kind)]
			require.NotNil(t, d, "%s %s has no line in reported", v, kind)
			require.Contains(t, d.APIVersions(), v, kind)
		}
	}
}

func TestIstioGroupsAreThoseOfItsKinds(t *testing.T) {
	groups := map[string]bool{}
	for _, versions := range Unread() {
		for _, v := range versions {
			group, _, _ := strings.Cut(v, "/")
			groups[group] = true
		}
	}
	for _, d := range All() {
		groups[d.Group] = true
	}
	delete(groups, "install.istio.io") // is read by installers alone
	for _, group := range IstioGroups() {
		require.True(t, groups[group], group)
		delete(groups, group)
	}
	for group := range groups {
		require.False(t, strings.HasSuffix(group, ".istio.io"), group)
	}
}

func TestUnknownKindsHaveNoDescriptor(t *testing.T) {
	require.Nil(t, Kind("Widget").NewObject())
	require.Zero(t, *Of("Widget"))
	require.Zero(t, testing.AllocsPerRun(100, func() { Of("Widget"); Of(Pod) }))
}
