package settings

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// Readiness says how the agent of a machine outside of Kubernetes probes the workload beside it
// (ProxyConfig.readinessProbe), for which the kubelet does so in a Pod. Exactly one of HTTP, TCP,
// GRPC and Exec is set.
type Readiness struct {
	InitialDelay, Period, Timeout time.Duration
	// Successes and Failures are how many in a row change what is told.
	Successes, Failures int
	// Host is where the workload is asked; empty stands for the proxy's first address.
	Host    string
	HTTP    *HTTPProbe
	Headers http.Header
	TCP     *TCPProbe
	GRPC    *GRPCProbe
	Exec    []string
}

// readinessProbe is Istio's ReadinessProbe in JSON.
type readinessProbe struct {
	InitialDelaySeconds int32 `json:"initialDelaySeconds"`
	TimeoutSeconds      int32 `json:"timeoutSeconds"`
	PeriodSeconds       int32 `json:"periodSeconds"`
	SuccessThreshold    int32 `json:"successThreshold"`
	FailureThreshold    int32 `json:"failureThreshold"`
	HTTPGet             *struct {
		Host    string     `json:"host"`
		Path    string     `json:"path"`
		Port    numberPort `json:"port"`
		Scheme  string     `json:"scheme"`
		Headers []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"httpHeaders"`
	} `json:"httpGet"`
	TCPSocket *struct {
		Host string     `json:"host"`
		Port numberPort `json:"port"`
	} `json:"tcpSocket"`
	GRPC *struct {
		Port    numberPort `json:"port"`
		Service string     `json:"service"`
	} `json:"grpc"`
	Exec *struct {
		Command []string `json:"command"`
	} `json:"exec"`
}

// readiness returns how the workload is probed, nil if it is not.
func (p *readinessProbe) readiness() (*Readiness, error) {
	if p == nil {
		return nil, nil
	}
	seconds := func(n, standard int32) time.Duration {
		if n == 0 {
			n = standard
		}
		return time.Duration(n) * time.Second
	}
	r := &Readiness{
		InitialDelay: seconds(p.InitialDelaySeconds, 0), Period: seconds(p.PeriodSeconds, 10),
		Timeout: seconds(p.TimeoutSeconds, 1), Successes: int(max(p.SuccessThreshold, 1)),
		Failures: int(max(p.FailureThreshold, 1)),
	}
	kinds, port := 0, numberPort(1)
	if h := p.HTTPGet; h != nil {
		kinds, port, r.Host = kinds+1, h.Port, h.Host
		r.HTTP = &HTTPProbe{
			Path: "/" + strings.TrimPrefix(h.Path, "/"), Port: uint16(h.Port),
			TLS: strings.EqualFold(h.Scheme, "HTTPS"),
		}
		r.Headers = http.Header{}
		for _, header := range h.Headers {
			r.Headers.Add(header.Name, header.Value)
		}
	}
	if t := p.TCPSocket; t != nil {
		kinds, port, r.Host, r.TCP = kinds+1, t.Port, t.Host, &TCPProbe{Port: uint16(t.Port)}
	}
	if g := p.GRPC; g != nil {
		kinds, port, r.GRPC = kinds+1, g.Port, &GRPCProbe{Port: uint16(g.Port), Service: g.Service}
	}
	if e := p.Exec; e != nil {
		kinds, r.Exec = kinds+1, e.Command
		if len(e.Command) == 0 {
			return nil, errors.New("readinessProbe.exec.command is empty; want a program and its arguments")
		}
	}
	switch {
	case kinds != 1:
		return nil, errors.New("readinessProbe: want exactly one of httpGet, tcpSocket, grpc and exec")
	case port == 0:
		return nil, errors.New("readinessProbe has no port; want a number from 1 to 65535")
	case min(r.InitialDelay, r.Period, r.Timeout) < 0:
		return nil, errors.New("readinessProbe: want seconds of 0 or more")
	}
	return r, nil
}
