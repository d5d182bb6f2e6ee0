package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

const (
	adminAddress = "127.0.0.1:15000"
	// audience is that of the tokens which proxies show to the control plane, Istio's.
	audience = "istio-ca"
	// drainSeconds is how long an Envoy that drains asks its callers to leave.
	drainSeconds = 5
)

// startProxy starts the pod's Envoy, with a token of its service account.
func (w *worker) startProxy() error {
	token, err := w.token()
	if err != nil {
		return fmt.Errorf("a token of service account %s: %w", w.pod.Spec.ServiceAccountName, err)
	}
	bootstrap, err := json.Marshal(w.bootstrap(token))
	if err != nil {
		return err
	}
	args := []string{
		w.k.o.Envoy, "--config-yaml", string(bootstrap), "--concurrency", "1", "--disable-hot-restart",
		"--log-level", "warning", "--component-log-level", "misc:error",
		"--drain-time-s", fmt.Sprint(drainSeconds), "--drain-strategy", "immediate",
	}
	w.proxy, err = w.launch("istio-proxy", podnet.ProxyUID, args, nil)
	return err
}

func (w *worker) token() (string, error) {
	ctx, cancel := context.WithTimeout(w.alive, time.Minute)
	defer cancel()
	seconds := int64(time.Hour.Seconds())
	request, err := w.k.o.Client.CoreV1().ServiceAccounts(w.namespace).CreateToken(ctx, w.pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{
				Audiences: []string{audience}, ExpirationSeconds: &seconds,
				BoundObjectRef: &authenticationv1.BoundObjectReference{
					Kind:       "Pod",
					APIVersion: "v1",
					Name:       w.name,
					UID:        w.uid,
				},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

type object = map[string]any

// bootstrap is an Envoy's configuration at start: who it is, and where the control plane is.
func (w *worker) bootstrap(token string) object {
	kind, mode := "sidecar", "REDIRECT"
	if w.role() == gateway {
		kind, mode = "router", "NONE"
	}
	ads := object{"resource_api_version": "V3", "ads": object{}, "initial_fetch_timeout": "0s"}
	return object{
		"node": object{
			"id": fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", kind, w.net.Addr, w.name, w.namespace,
				w.namespace),
			"cluster": w.name + "." + w.namespace,
			"metadata": object{
				"NAME":              w.name,
				"NAMESPACE":         w.namespace,
				"LABELS":            w.pod.Labels,
				"SERVICE_ACCOUNT":   w.pod.Spec.ServiceAccountName,
				"CLUSTER_ID":        "Kubernetes",
				"INSTANCE_IPS":      w.net.Addr.String(),
				"NODE_NAME":         w.node.name,
				"INTERCEPTION_MODE": mode,
				"ISTIO_VERSION":     "1.31.0", "PROXY_CONFIG": object{},
				"ENVOY_STATUS_PORT": 15021, // there is an agent
			},
		},
		"admin": object{"address": address("127.0.0.1", 15000)},
		"dynamic_resources": object{
			"cds_config": ads, "lds_config": ads,
			"ads_config": object{
				"api_type": "DELTA_GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": true,
				"grpc_services": []object{{
					"envoy_grpc": object{
						"cluster_name": "xds-grpc",
						"retry_policy": object{
							"retry_back_off": object{"base_interval": "0.05s", "max_interval": "1s"},
						},
					},
					"initial_metadata": []object{{"key": "authorization", "value": "Bearer " + token}},
				}},
			},
		},
		"static_resources": object{"clusters": []object{w.xdsCluster(), w.sdsCluster()}},
		"layered_runtime": object{"layers": []object{
			{"name": "static", "static_layer": object{"re2.max_program_size.error_level": 32768}},
			{"name": "admin", "admin_layer": object{}},
		}},
	}
}

func (w *worker) xdsCluster() object {
	xds := w.k.o.XDS
	return http2Cluster("xds-grpc", address(xds.Addr().String(), int(xds.Port())))
}

// sdsCluster is where the agent serves the proxy's certificate.
func (w *worker) sdsCluster() object {
	return http2Cluster("sds-grpc", object{"pipe": object{"path": w.k.o.SDS}})
}

func http2Cluster(name string, at object) object {
	http2 := object{
		"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
		"explicit_http_config": object{
			"http2_protocol_options": object{"connection_keepalive": object{"interval": "30s", "timeout": "5s"}},
		},
	}
	return object{
		"name": name, "type": "STATIC", "connect_timeout": "1s",
		"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
		"load_assignment": object{
			"cluster_name": name,
			"endpoints":    []object{{"lb_endpoints": []object{{"endpoint": object{"address": at}}}}},
		},
	}
}

func address(ip string, port int) object {
	return object{"socket_address": object{"address": ip, "port_value": port}}
}

// proxyReady tells whether the Envoy serves.
func (w *worker) proxyReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return get(ctx, w.net.Dial, "http://"+adminAddress+"/ready")
}

// drainProxy makes the Envoy ask those connected to it to leave.
func (w *worker) drainProxy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+adminAddress+"/drain_listeners?graceful&skip_exit", nil)
	if err != nil {
		return
	}
	client := http.Client{Transport: &http.Transport{DialContext: w.net.Dial, DisableKeepAlives: true}}
	if response, err := client.Do(request); err == nil {
		_ = response.Body.Close()
	}
}
