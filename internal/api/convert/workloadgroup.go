package convert

import (
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
)

// workloadGroup gives no object: a group has no effect on proxies. It is read where a machine
// registers itself (cluster/machines), and where its start is configured (lateen workload
// configure). What is wrong in it would be wrong in all its WorkloadEntries.
func (r *reader) workloadGroup(in *networkingv1.WorkloadGroup) []Object {
	p := path("spec")
	at, template := p.dot("template"), in.Spec.GetTemplate()
	if template == nil {
		r.fail(at, nil, "is missing", "the WorkloadEntry that each machine gets, but for its address")
		return nil
	}
	if template.GetAddress() != "" {
		r.warn(at.dot("address"), template.GetAddress(), "has no effect: each machine says its own", "no address")
	}
	if a := template.GetServiceAccount(); a != "" && !isObjectName(a) {
		r.fail(at.dot("serviceAccount"), a, "is no name of a ServiceAccount", wantLabel)
	}
	if template.GetWeight() > maxWeight {
		r.fail(at.dot("weight"), template.GetWeight(), "is too large", "a number from 0 to 1000000")
	}
	r.workloadPorts(at.dot("ports"), template)
	r.labels(at.dot("labels"), template.GetLabels())
	r.labels(p.dot("metadata").dot("labels"), in.Spec.GetMetadata().GetLabels())
	r.readinessProbe(p.dot("probe"), in.Spec.GetProbe())
	r.reportUnused(p, in.Spec.ProtoReflect())
	return nil
}

// readinessProbe looks at how an agent probes the workload beside it.
func (r *reader) readinessProbe(p path, in *networking.ReadinessProbe) {
	if in == nil {
		return
	}
	for _, f := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", in.GetInitialDelaySeconds()}, {"timeoutSeconds", in.GetTimeoutSeconds()},
		{"periodSeconds", in.GetPeriodSeconds()}, {"successThreshold", in.GetSuccessThreshold()},
		{"failureThreshold", in.GetFailureThreshold()},
	} {
		if f.value < 0 {
			r.fail(p.dot(f.name), f.value, "is less than 0", "a number of 0 or more")
		}
	}
	switch m := in.GetHealthCheckMethod().(type) {
	case *networking.ReadinessProbe_HttpGet:
		r.port(p.dot("httpGet").dot("port"), int64(m.HttpGet.GetPort()))
		if s := m.HttpGet.GetScheme(); s != "" && !hasWord("HTTP HTTPS http https", s) {
			r.fail(p.dot("httpGet").dot("scheme"), s, "is no scheme", "HTTP or HTTPS")
		}
	case *networking.ReadinessProbe_TcpSocket:
		r.port(p.dot("tcpSocket").dot("port"), int64(m.TcpSocket.GetPort()))
	case *networking.ReadinessProbe_Grpc:
		r.port(p.dot("grpc").dot("port"), int64(m.Grpc.GetPort()))
	case *networking.ReadinessProbe_Exec:
		if len(m.Exec.GetCommand()) == 0 {
			r.fail(p.dot("exec").dot("command"), nil, "is empty", "a program and its arguments")
		}
	default:
		r.fail(p, nil, "names no way to probe", "one of httpGet, tcpSocket, exec and grpc")
	}
}
