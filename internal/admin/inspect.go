package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// The types for which istioctl asks over xDS: the state of all proxies, what one proxy should have,
// and any page below /debug.
const (
	typeSyncz      = serve.InspectionType + "/syncz"
	typeConfigDump = serve.InspectionType + "/config_dump"
	typePage       = serve.InspectionType
)

// notConnected is istiod's text. istioctl looks for it, and then asks the next replica.
const notConnected = "Proxy not connected to this Pilot instance. It may be connected to another instance."

// Inspector answers istioctl over xDS, in istiod's form. It answers callers with an identity alone:
// those of the root namespace all, those of another one about the proxies of that.
type Inspector struct {
	handler
	pages http.Handler
}

var _ serve.Inspector = (*Inspector)(nil)

// NewInspector returns an Inspector that shows the same as NewHandler.
func NewInspector(o Options) *Inspector {
	h := handler{Options: o}
	mux := http.NewServeMux()
	for path, f := range h.pages() {
		mux.HandleFunc("GET "+path, f)
	}
	return &Inspector{handler: h, pages: mux}
}

// Inspect implements serve.Inspector.
func (i *Inspector) Inspect(id serve.Identity, typeURL string, names []string) (serve.Inspection, error) {
	if id == (serve.Identity{}) {
		return serve.Inspection{}, status.Error(codes.Unauthenticated, "the control plane is shown to those alone who "+
			"prove who they are; want a token or certificate, on the TLS port")
	}
	caller := caller{namespace: id.Namespace, sees: id.Namespace}
	if id.Namespace == i.RootNamespace() {
		caller.sees = ""
	}
	answer := serve.Inspection{ControlPlane: i.identifier()}
	var err error
	switch {
	case typeURL == typeSyncz:
		answer.Resources, err = i.clientConfigs(caller)
	case len(names) != 1:
		err = status.Errorf(codes.InvalidArgument, "%d names of %s are asked for; want one", len(names), typeURL)
	case typeURL == typeConfigDump:
		answer.Resources, err = i.dump(caller, names[0])
	case typeURL == typePage:
		answer.Resources, err = i.pageOf(caller, names[0])
	default:
		err = status.Errorf(codes.InvalidArgument, "the type %.64q is not known; want %s, %s or %s",
			typeURL, typePage, typeSyncz, typeConfigDump)
	}
	return answer, err
}

// identifier tells istioctl which replica answers, and its version.
func (i *Inspector) identifier() string {
	type build struct {
		Version string `json:"version"`
		Go      string `json:"golang_version"`
	}
	text, _ := json.Marshal(struct { // strings alone
		Component, ID string
		Info          build
	}{"istiod", i.Pod, build{i.Version, runtime.Version()}})
	return string(text)
}

// clientConfigs returns the state of each proxy, by type.
func (i *Inspector) clientConfigs(by caller) ([]serve.InspectedResource, error) {
	var all []serve.InspectedResource
	for _, c := range i.Fleet.Clients() {
		if !by.maySee(c) {
			continue
		}
		body, err := anypb.New(clientConfig(c))
		if err != nil {
			return nil, status.Errorf(codes.Internal, "the state of %s cannot be encoded: %v", c.Node.Name, err)
		}
		all = append(all, serve.InspectedResource{Name: c.Node.ID, Body: body})
	}
	return all, nil
}

func clientConfig(c serve.Client) *statusv3.ClientConfig {
	meta := &c.Node.Metadata
	text := structpb.NewStringValue
	config := &statusv3.ClientConfig{Node: &corev3.Node{Id: c.Node.ID, Metadata: &structpb.Struct{
		Fields: map[string]*structpb.Value{
			"CLUSTER_ID":    text(meta.ClusterID),
			"NAMESPACE":     text(c.Node.Namespace),
			"ISTIO_VERSION": text(meta.IstioVersion),
		},
	}}}
	for t, is := range c.Types {
		if !is.Subscribed && is.Sent == "" {
			continue
		}
		of := &statusv3.ClientConfig_GenericXdsConfig{
			TypeUrl: resource.Type(t).URL(), ConfigStatus: configStatus(stateOf(is), c.Behind),
		}
		if !is.SentAt.IsZero() {
			of.LastUpdated = timestamppb.New(is.SentAt)
		}
		if is.Nack != "" {
			of.ErrorState = &adminv3.UpdateFailureState{Details: is.Nack, LastUpdateAttempt: of.GetLastUpdated()}
		}
		config.GenericXdsConfigs = append(config.GenericXdsConfigs, of)
	}
	slices.SortFunc(config.GenericXdsConfigs, func(a, b *statusv3.ClientConfig_GenericXdsConfig) int {
		return cmp.Compare(a.GetTypeUrl(), b.GetTypeUrl())
	})
	return config
}

func configStatus(s page.SyncState, behind bool) statusv3.ConfigStatus {
	switch {
	case s == page.Nack:
		return statusv3.ConfigStatus_ERROR
	case s == page.NotSent:
		return statusv3.ConfigStatus_NOT_SENT
	case s == page.Stale, behind:
		return statusv3.ConfigStatus_STALE
	}
	return statusv3.ConfigStatus_SYNCED
}

// dump returns the parts of the configuration that a proxy should have.
func (i *Inspector) dump(by caller, proxy string) ([]serve.InspectedResource, error) {
	c, ok := i.find(by, proxy)
	if !ok {
		return []serve.InspectedResource{{Name: proxy, Body: &anypb.Any{Value: []byte(notConnected)}}}, nil
	}
	tables, err := ownTables(c) // istioctl compares them with the proxy's own dump
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	dump, err := dumpOf(c, tables)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	var parts []serve.InspectedResource
	for _, part := range dump.GetConfigs() {
		parts = append(parts, serve.InspectedResource{Name: part.GetTypeUrl(), Body: part})
	}
	return parts, nil
}

// pagesOfOwnProxies are those that callers outside of the root namespace may ask for. They are
// about one proxy, which find looks for in the caller's namespace alone.
var pagesOfOwnProxies = []string{"config_dump", "edsz", "ndsz"}

// pageOf returns the page below /debug that a name with its query says.
func (i *Inspector) pageOf(by caller, name string) ([]serve.InspectedResource, error) {
	at, err := url.Parse(page.Path(strings.TrimPrefix(name, page.Path("")))) // as /debug/list names pages
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "the page %.64q is no path with a query", name)
	}
	own := func(name string) bool { return at.Path == page.Path(name) }
	if by.sees != "" && !slices.ContainsFunc(pagesOfOwnProxies, own) {
		return nil, status.Errorf(codes.PermissionDenied, "%.64q is shown to callers of namespace %s; those of "+
			"%s may ask for config_dump, edsz and ndsz", name, i.RootNamespace(), by.namespace)
	}
	r, err := http.NewRequestWithContext(withCaller(context.Background(), by), http.MethodGet, at.RequestURI(), nil)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "the page %.64q cannot be asked for: %v", name, err)
	}
	var w recorder
	i.pages.ServeHTTP(&w, r)
	return []serve.InspectedResource{{Name: name, Body: &anypb.Any{TypeUrl: typePage, Value: w.body.Bytes()}}}, nil
}

// recorder keeps what a page writes. Its status is not told: istioctl knows errors by their text.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// WriteHeader implements http.ResponseWriter.
func (*recorder) WriteHeader(int) {}

// caller is who asks. sees is the one namespace whose proxies it is shown; empty for all.
type caller struct{ namespace, sees string }

type callerKey struct{}

func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// callerOf returns who asks for a page. Who asks over HTTP was let through by guarded, and sees
// all.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

func (c caller) maySee(p serve.Client) bool { return c.sees == "" || c.sees == p.Node.Namespace }

// askedProxy returns the proxy of ?proxyID, or writes that there is none.
func (h handler) askedProxy(w http.ResponseWriter, r *http.Request) (c serve.Client, ok bool) {
	by, id := callerOf(r), r.URL.Query().Get("proxyID")
	if id == "" {
		http.Error(w, "You must provide a proxyID in the query string: want ?proxyID=pod.namespace\n"+h.connected(by),
			http.StatusBadRequest)
		return c, false
	}
	if c, ok = h.find(by, id); !ok {
		text := fmt.Sprintf("%s\n%q is not connected; %s", notConnected, id, h.connected(by))
		http.Error(w, text, http.StatusNotFound)
	}
	return c, ok
}
