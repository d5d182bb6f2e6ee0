package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/translate/evaluate"
)

// authorizeBy says what a connected proxy does with a call, by the configuration that the control
// plane serves it.
func authorizeBy(ctx context.Context, r *remote.Remote, proxy string, call policy.Call) (*page.AuthzAnswer, error) {
	at, p, err := proxyNamed(ctx, r, proxy)
	if err != nil {
		return nil, err
	}
	if account := strings.Split(call.Identity, "/"); len(account) == 2 {
		mesh, err := remote.Read[struct{ TrustDomain string }](ctx, at, page.Mesh, nil)
		if err != nil {
			return nil, err
		}
		call.Identity = model.IdentityOf(mesh.TrustDomain, account[0], account[1])
	}
	body, err := at.Fetch(ctx, page.Path(page.Dump), url.Values{"proxyID": {p.ProxyID}})
	if err != nil {
		return nil, err
	}
	dump, err := readDump(body)
	if err != nil {
		return nil, err
	}
	var filters any
	if body, err = at.Fetch(ctx, page.Path(page.Filters), url.Values{"proxyID": {p.ProxyID}}); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &filters); err != nil {
		return nil, fmt.Errorf("the filters of %s: %w", p.ProxyID, err)
	}
	dump.configs = append(dump.configs, filters)
	report, err := inboundOf(dump).Decide(call)
	if err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", p.ProxyID, err)
	}
	if call.Port == 0 {
		report.NotGiven = append(report.NotGiven, model.DestinationPort.String())
	}
	return &page.AuthzAnswer{Workload: p.ProxyID, Report: report}, nil
}

// inboundOf is the part of a dump that calls to the proxy's workload meet.
func inboundOf(dump *configDump) evaluate.Config {
	config := evaluate.Config{Extensions: map[string]*anypb.Any{}}
	for _, found := range dump.resources(&listenerv3.Listener{}) {
		if l, is := found.message.(*listenerv3.Listener); is {
			config.Listeners = append(config.Listeners, l)
		}
	}
	for _, found := range dump.resources(&corev3.TypedExtensionConfig{}) {
		if e, is := found.message.(*corev3.TypedExtensionConfig); is {
			config.Extensions[e.GetName()] = e.GetTypedConfig()
		}
	}
	return config
}
