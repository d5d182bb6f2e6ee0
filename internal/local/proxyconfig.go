package local

import (
	"iter"
	"maps"
	"slices"
	"strings"

	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// metadataPrefix is that of the variables which become metadata of a proxy's node, as with Istio's
// agent.
const metadataPrefix = "ISTIO_META_"

// proxyConfigsOf returns the ProxyConfigs in force for a pod. What is wrong in them the control
// plane reports; here it has no effect.
func (in *inputs) proxyConfigsOf(pod *corev1.Pod) model.ProxyConfigs {
	all := map[string][]*model.ProxyConfig{}
	for key, c := range in.proxyConfigs {
		all[key.Namespace] = append(all[key.Namespace], readProxyConfig(key, c))
	}
	of := func(namespace string) iter.Seq[*model.ProxyConfig] {
		return slices.Values(slices.SortedFunc(slices.Values(all[namespace]), func(a, b *model.ProxyConfig) int {
			return a.Compare(&b.Meta)
		}))
	}
	return model.ProxyConfigsFor(model.DefaultMesh().RootNamespace, pod.Namespace, model.LabelsOf(pod.Labels), of)
}

func readProxyConfig(key source.Key, in *networkingv1beta1.ProxyConfig) *model.ProxyConfig {
	out := &model.ProxyConfig{
		Meta: model.Meta{
			Kind: key.Kind, Namespace: key.Namespace, Name: key.Name, Created: in.CreationTimestamp.Unix(),
		},
		Selector: model.LabelsOf(in.Spec.GetSelector().GetMatchLabels()),
	}
	if in.CreationTimestamp.IsZero() {
		out.Created = 0
	}
	if n := in.Spec.GetConcurrency(); n.GetValue() >= 0 && n != nil {
		out.Concurrency = &n.Value
	}
	for _, name := range slices.Sorted(maps.Keys(in.Spec.GetEnvironmentVariables())) {
		if name != "" && !strings.ContainsAny(name, "=\x00") {
			out.Environment = append(out.Environment, model.Variable{
				Name: name, Value: in.Spec.GetEnvironmentVariables()[name],
			})
		}
	}
	return out
}

// setVariables sets what ProxyConfigs say of an Envoy's environment.
func setVariables(env *environment, configs model.ProxyConfigs) {
	for _, c := range []*model.ProxyConfig{configs.Mesh, configs.Namespace, configs.Workload} {
		if c == nil {
			continue
		}
		for _, v := range c.Environment {
			env.set(v.Name, v.Value)
		}
	}
}

// metadataOf returns the node's metadata that an environment has.
func metadataOf(env *environment) map[string]any {
	out := map[string]any{}
	for _, name := range env.names {
		if key, is := strings.CutPrefix(name, metadataPrefix); is && key != "" {
			out[key] = env.values[name]
		}
	}
	return out
}
