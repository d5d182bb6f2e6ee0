package features

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
)

// httpAuthorizer is an authorizer by HTTP. It refuses paths with "denied" in them with 402, never
// answers about those with "slow", and accepts all others, always with the same headers.
type httpAuthorizer struct {
	*recorder
	bodiesMu sync.Mutex
	bodies   map[string]string // the last one, by path
}

func newHTTPAuthorizer(t *testing.T) *httpAuthorizer {
	t.Helper()
	a := &httpAuthorizer{recorder: newRecorder(t), bodies: map[string]string{}}
	a.answers(a.decide)
	return a
}

func (a *httpAuthorizer) decide(w http.ResponseWriter, r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	a.bodiesMu.Lock()
	a.bodies[r.URL.Path] = string(body)
	a.bodiesMu.Unlock()
	for name, value := range map[string]string{
		"x-user": "ann", "x-seen": "yes", "x-reason": "money", "x-other": "secret",
	} {
		w.Header().Set(name, value)
	}
	switch {
	case strings.Contains(r.URL.Path, "slow"):
		<-r.Context().Done()
	case strings.Contains(r.URL.Path, "denied"):
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, "pay first")
	}
	return true
}

// body is what came with the last question about a path.
func (a *httpAuthorizer) body(path string) string {
	a.bodiesMu.Lock()
	defer a.bodiesMu.Unlock()
	return a.bodies[path]
}

// serveChecks serves an authorizer by gRPC, and returns its port.
func serveChecks(t *testing.T, authorizer authv3.AuthorizationServer) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, authorizer)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-ended })
	return listener.Addr().(*net.TCPAddr).Port
}

// goodPaths accepts requests to paths with "good" in them.
type goodPaths struct {
	authv3.UnimplementedAuthorizationServer
}

func (goodPaths) Check(_ context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	code := codes.PermissionDenied
	if strings.Contains(in.GetAttributes().GetRequest().GetHttp().GetPath(), "good") {
		code = codes.OK
	}
	return &authv3.CheckResponse{Status: &status.Status{Code: int32(code)}}, nil
}

// grpcAuthorizer is an authorizer by gRPC. It refuses paths with "denied" in them with 429, never
// answers about those with "slow", and accepts all others. Of these it leaves who the header x-who
// names: as the header x-user, and as metadata with the groups of that user.
type grpcAuthorizer struct {
	authv3.UnimplementedAuthorizationServer
	mu   sync.Mutex
	seen map[string]*authv3.AttributeContext_HttpRequest // the last one, by path
}

func newGRPCAuthorizer() *grpcAuthorizer {
	return &grpcAuthorizer{seen: map[string]*authv3.AttributeContext_HttpRequest{}}
}

func (a *grpcAuthorizer) asked(path string) *authv3.AttributeContext_HttpRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[path]
}

func (a *grpcAuthorizer) Check(ctx context.Context, in *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	request := in.GetAttributes().GetRequest().GetHttp()
	a.mu.Lock()
	a.seen[request.GetPath()] = request
	a.mu.Unlock()
	switch {
	case strings.Contains(request.GetPath(), "slow"):
		<-ctx.Done()
		return nil, ctx.Err()
	case strings.Contains(request.GetPath(), "denied"):
		return &authv3.CheckResponse{
			Status: &status.Status{Code: int32(codes.ResourceExhausted)},
			HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
				Status:  &typev3.HttpStatus{Code: typev3.StatusCode_TooManyRequests},
				Headers: authorizerHeader("x-reason", "quota"), Body: "later",
			}},
		}, nil
	}
	who := request.GetHeaders()["x-who"]
	metadata, err := structpb.NewStruct(map[string]any{"user": who, "groups": []any{"all", "of-" + who}})
	return &authv3.CheckResponse{
		Status: &status.Status{}, DynamicMetadata: metadata,
		HttpResponse: &authv3.CheckResponse_OkResponse{
			OkResponse: &authv3.OkHttpResponse{Headers: authorizerHeader("x-user", who)},
		},
	}, err
}

func authorizerHeader(name, value string) []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: name, Value: value}}}
}
