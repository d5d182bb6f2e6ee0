package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/source"
)

// besides are variables that a control plane reads beside the settings.
var besides = []string{"GOGC", "GOMEMLIMIT", "GODEBUG", "GOMAXPROCS", "GOTRACEBACK"}

// checkSettings reads the variables as the control plane does.
func (r *Reader) checkSettings() {
	env := map[string]any{}
	for _, path := range []string{"pilot.env", "env"} {
		if of, ok := at(r.values, path).(map[string]any); ok {
			maps.Copy(env, of)
		}
	}
	known := map[string]bool{} // to Lateen or to istiod
	lookup := func(name string) (string, bool) {
		known[name] = true
		value, set := env[name]
		return textOf(value), set
	}
	if _, err := config.FromEnv(lookup); err != nil {
		r.fail("pilot.env: %w", err)
	}
	for _, u := range config.UnheededIn(lookup) {
		r.note("pilot.env."+u.Name, env[u.Name], "without effect: "+u.Why)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !known[name] && !slices.Contains(besides, name) {
			r.note("pilot.env."+name, env[name], "without effect: neither Lateen nor istiod reads it")
		}
	}
}

// textOf is a value as the chart writes it into a variable.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return fmt.Sprint(value)
}

// at returns the value under a dotted path, nil if there is none.
func at(values map[string]any, path string) any {
	var value any = values
	for key := range strings.SplitSeq(path, ".") {
		of, _ := value.(map[string]any)
		value = of[key]
	}
	return value
}

// istiods are names of istiod's image, which Istio's files may hold.
var istiods = []string{"pilot", "istio/pilot", "docker.io/istio/pilot", "istiod"}

// checkImage drops the image of istiod.
func (r *Reader) checkImage() {
	for _, path := range []string{"pilot.image", "image"} {
		image, ok := at(r.values, path).(string)
		name, _, _ := strings.Cut(image, ":")
		if ok && slices.Contains(istiods, name) {
			r.note("values."+path, image, "without effect: it is istiod's image; want --image")
			remove(r.values, path)
		}
	}
}

// checkDiscovery leaves out the address of another control plane. istiod's chart writes its own
// into the mesh configuration, and proxies that Lateen injects would go on asking istiod by it.
func (r *Reader) checkDiscovery() {
	const config = "meshConfig.defaultConfig"
	proxies, _ := at(r.values, config).(map[string]any)
	address, _ := proxies["discoveryAddress"].(string)
	if !istiodAddress.MatchString(address) {
		return // it is not there, or a name that somebody has made
	}
	revision, _ := r.values["revision"].(string)
	own := install.NamesOf(r.spec.Root(), revision).Discovery()
	host, port, _ := strings.Cut(address, ":")
	name, ownPort, _ := strings.Cut(own, ":")
	if port == ownPort && strings.HasPrefix(host+".", name+".") {
		return // with or without the domain of the cluster
	}
	r.note(config+".discoveryAddress", address, "without effect: proxies of this revision ask "+own)
	delete(proxies, "discoveryAddress")
}

// istiodAddress matches the addresses of Services that control planes have.
var istiodAddress = regexp.MustCompile(`^istiod(-[^.]+)?\.[^.]+\.svc(\.[^:]+)?(:[0-9]+)?$`)

// checkMesh reads the mesh configuration as the control plane does. What it would not put in force
// is an error here, and what is without effect is reported.
func (r *Reader) checkMesh() {
	mesh, _ := r.values["meshConfig"].(map[string]any)
	if len(mesh) == 0 {
		return
	}
	if at(mesh, "defaultConfig.interceptionMode") == "TPROXY" && at(r.values, "pilot.cni.enabled") == true {
		r.fail("meshConfig.defaultConfig.interceptionMode = TPROXY: want REDIRECT, or pilot.cni.enabled = false; the " +
			"injection would refuse each Pod, because Istio's CNI plugin cannot be validated with it")
	}
	text, err := yaml.Marshal(mesh)
	if err != nil {
		r.fail("meshConfig: %w", err)
		return
	}
	defaults := model.DefaultMesh()
	defaults.RootNamespace = r.spec.Root()
	converter := convert.New(convert.Options{Defaults: defaults, Selected: true, Injects: true})
	result := converter.Convert(source.Change{
		Key: converter.MeshKey(),
		Object: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: converter.MeshKey().Namespace, Name: converter.MeshKey().Name},
			Data:       map[string]string{"mesh": string(text)},
		},
	}, defaults)
	for _, p := range result.Problems {
		p.Path = strings.Replace(p.Path, "data.mesh", "meshConfig", 1)
		if p.Severity == source.Warning {
			r.notes = append(r.notes, Note{p.Path, p.Value, strings.Join(nonempty(p.Message, p.Want), "; want ")})
			continue
		}
		r.fail("%s", p.Detail())
	}
}

func nonempty(words ...string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}
