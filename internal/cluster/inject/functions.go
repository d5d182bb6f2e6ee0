package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"
	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cluster/inject/gotemplate"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// functions returns what templates may call beside the library, or instead of it: what Istio's
// injector has.
func functions() gotemplate.Funcs {
	return gotemplate.Funcs{
		"isset":                  func(of map[string]string, key string) bool { _, ok := of[key]; return ok },
		"annotation":             annotation,
		"valueOrDefault":         valueOrDefault,
		"excludeInboundPort":     excludeInboundPort,
		"includeInboundPorts":    func(of []corev1.Container) string { return containerPorts(of, "") },
		"applicationPorts":       func(of []corev1.Container) string { return containerPorts(of, proxyName) },
		"kubevirtInterfaces":     func(s string) string { return s },
		"excludeInterfaces":      func(s string) string { return s },
		"formatDuration":         func(d *durationpb.Duration) string { return d.AsDuration().String() },
		"protoToJSON":            proxyJSON,
		"structToJSON":           asJSON,
		"toJSON":                 asJSON,
		"toJsonMap":              func(of ...map[string]string) (string, error) { return asJSON(mergedMaps(of...)) },
		"fromJSON":               fromJSON,
		"toYaml":                 func(v any) (string, error) { raw, err := yaml.Marshal(v); return string(raw), err },
		"indent":                 indentRest,
		"directory":              func(file string) string { dir, _ := path.Split(file); return dir },
		"toLower":                strings.ToLower,
		"appendMultusNetwork":    appendNetwork,
		"env":                    func(_, standard string) string { return standard }, // what a process has is its own
		"omit":                   omit,
		"omitNil":                func(v any) any { return omitNil(copied(v)) },
		"strdict":                strdict,
		"mergeMaps":              mergedMaps,
		"otelResourceAttributes": func(*mesh.MeshConfig, ...any) string { return "" },
	}
}

// annotation returns the annotation of a Pod, or what stands for it.
func annotation(of metav1.ObjectMeta, name string, standard any) string {
	if value, ok := of.Annotations[name]; ok {
		return value
	}
	return fmt.Sprint(standard)
}

func valueOrDefault(value, standard any) any {
	if value == nil || value == "" {
		return standard
	}
	return value
}

// excludeInboundPort adds a port to a list, unless it is 0 or there.
func excludeInboundPort(port any, list string) string {
	added := strings.TrimSpace(fmt.Sprint(port))
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == added {
			return list
		} else if one != "" {
			all = append(all, one)
		}
	}
	if added == "" || added == "0" {
		return list
	}
	return strings.Join(append(all, added), ",")
}

// containerPorts returns the TCP ports of all containers but one.
func containerPorts(of []corev1.Container, except string) string {
	var all []string
	for n := range of {
		for _, p := range of[n].Ports {
			if of[n].Name != except && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
				all = append(all, strconv.Itoa(int(p.ContainerPort)))
			}
		}
	}
	return strings.Join(all, ",")
}

func asJSON(v any) (string, error) {
	if of, ok := v.(map[string]string); v == nil || ok && of == nil {
		return "{}", nil
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

func fromJSON(text string) (v any, err error) {
	err = untrusted.Annotation().JSON([]byte(text), &v)
	return v, err
}

// indentRest indents all lines but the first, which stands where the template has it.
func indentRest(n int, text string) (string, error) {
	const most = 1000
	if n < 0 || n > most {
		return "", fmt.Errorf("indenting by %d is not possible", n)
	}
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n)), nil
}

// appendNetwork adds a network "namespace/name" to the value of k8s.v1.cni.cncf.io/networks, which
// is JSON or a list with commas.
func appendNetwork(list, network string) (string, error) {
	if !strings.Contains(list, "]") {
		for one := range strings.SplitSeq(list, ",") {
			if strings.TrimSpace(one) == network {
				return list, nil
			}
		}
		if list == "" {
			return network, nil
		}
		return list + ", " + network, nil
	}
	var all []object
	if err := untrusted.Annotation().JSON([]byte(list), &all); err != nil {
		return "", fmt.Errorf("%q is no list of networks: %w", excerpt(list), err)
	}
	added := object{"name": network}
	if namespace, name, ok := strings.Cut(network, "/"); ok {
		added = object{"namespace": namespace, "name": name}
	}
	if slices.ContainsFunc(all, func(o object) bool {
		return o["name"] == added["name"] && o["namespace"] == added["namespace"]
	}) {
		return list, nil
	}
	raw, err := json.Marshal(append(all, added))
	return string(raw), err
}

func omit(of map[string]string, keys ...string) map[string]string {
	out := maps.Clone(of)
	for _, key := range keys {
		delete(out, key)
	}
	return out
}

// omitNil removes what is null, at all levels.
func omitNil(v any) any {
	switch v := v.(type) {
	case object:
		for key, value := range v {
			if value == nil {
				delete(v, key)
				continue
			}
			v[key] = omitNil(value)
		}
	case []any:
		v = slices.DeleteFunc(v, func(one any) bool { return one == nil })
		for n := range v {
			v[n] = omitNil(v[n])
		}
		return v
	}
	return v
}

func strdict(words ...string) (map[string]string, error) {
	out := map[string]string{}
	if len(words)%2 != 0 {
		return nil, errors.New("want a value for each key")
	}
	for n := 0; n < len(words); n += 2 {
		out[words[n]] = words[n+1]
	}
	return out, nil
}

func mergedMaps(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, of := range all {
		maps.Copy(out, of)
	}
	return out
}
