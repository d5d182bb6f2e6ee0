package serve

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	securityv1 "istio.io/api/security/v1alpha1"
)

// authority is a certificate service that answers with who asked. Tokens are names of Pods; forged
// ones are refused by a review, which waits until it is told to answer.
type authority struct {
	securityv1.UnimplementedIstioCertificateServiceServer

	reviews  atomic.Int64  // under way
	most     atomic.Int64  // of them at a time
	answered chan struct{} // closed when reviews of forged tokens are answered; nil: at once
	signing  chan struct{} // what a signing takes; nil: nothing
	asked    atomic.Int64
}

type callerKey struct{}

func (a *authority) Screen(_ context.Context, md metadata.MD) error {
	if len(md.Get("pod"))+len(md.Get("forged")) == 0 {
		return errors.New("want a credential")
	}
	return nil
}

func (a *authority) Authenticate(ctx context.Context, md metadata.MD) (context.Context, Identity, error) {
	if len(md.Get("pod")) == 0 {
		now := a.reviews.Add(1)
		defer a.reviews.Add(-1)
		for most := a.most.Load(); now > most && !a.most.CompareAndSwap(most, now); most = a.most.Load() {
		}
		select {
		case <-a.answered:
		case <-ctx.Done():
		}
		return nil, Identity{}, errors.New("forged")
	}
	id, err := bound{}.Authenticate(ctx, md)
	return context.WithValue(ctx, callerKey{}, id.Pod), id, err
}

func (a *authority) CreateCertificate(
	ctx context.Context, r *securityv1.IstioCertificateRequest,
) (*securityv1.IstioCertificateResponse, error) {
	a.asked.Add(1)
	if a.signing != nil {
		select {
		case <-a.signing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	pod, _ := ctx.Value(callerKey{}).(string)
	return &securityv1.IstioCertificateResponse{CertChain: []string{pod, r.GetCsr()}}, nil
}

// addressed is a listener whose connections come from an address of another machine.
type addressed struct {
	*bufconn.Listener
	ip string
}

func (a addressed) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return remote{conn, &net.TCPAddr{IP: net.ParseIP(a.ip), Port: 1000}}, nil
}

type remote struct {
	net.Conn
	addr net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.addr }

// asAuthority has a server serve certificates beside discovery, to callers with a credential.
func asAuthority(a *authority) func(*Options) {
	return func(o *Options) {
		o.Authenticator, o.Callers = bound{}, a
		o.Register = func(r grpc.ServiceRegistrar) { securityv1.RegisterIstioCertificateServiceServer(r, a) }
	}
}

// at returns a client at an address.
func (f *fixture) at(ip string) securityv1.IstioCertificateServiceClient {
	return securityv1.NewIstioCertificateServiceClient(f.connAt(ip))
}

func (f *fixture) connAt(ip string) *grpc.ClientConn {
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(addressed{l, ip}) }()
	conn, err := grpc.NewClient("passthrough:///lateen", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	require.NoError(f.t, err)
	f.t.Cleanup(func() {
		require.NoError(f.t, conn.Close())
		require.NoError(f.t, l.Close())
		require.Error(f.t, <-served)
	})
	return conn
}

func with(ctx context.Context, key, value string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, key, value)
}

// hugeRequest is one of nearly 4 MiB. Each two bytes of it become a structpb.Value.
func hugeRequest(t *testing.T) []byte {
	list := &structpb.ListValue{Values: slices.Repeat([]*structpb.Value{{}}, 2<<20-1024)}
	whole, err := proto.Marshal(&securityv1.IstioCertificateRequest{Metadata: &structpb.Struct{
		Fields: map[string]*structpb.Value{"a": structpb.NewListValue(list)},
	}})
	require.NoError(t, err)
	return whole
}

// readyCodec sends bytes as they are.
type readyCodec struct{ encoding.CodecV2 }

func (c readyCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func (f *fixture) sendReady(ctx context.Context, conn *grpc.ClientConn, message []byte) error {
	return conn.Invoke(ctx, securityv1.IstioCertificateService_CreateCertificate_FullMethodName, message,
		&securityv1.IstioCertificateResponse{}, grpc.ForceCodecV2(readyCodec{encoding.GetCodecV2("proto")}))
}

// A call without a credential costs no more than a window of HTTP/2: its message is neither read
// nor decoded.
func TestCallsWithoutACredentialAreNotRead(t *testing.T) {
	a := &authority{}
	f := newFixture(t, asAuthority(a))
	conn, message := f.connAt("10.0.0.1"), hugeRequest(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			err := f.sendReady(t.Context(), conn, message)
			require.Equal(t, codes.Unauthenticated, status.Code(err), err)
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20), "all that was allocated; they have 800 MiB")
	require.Zero(t, a.asked.Load())
	require.LessOrEqual(t, strings.Count(f.log.String(), "call refused"), 10)
}

func TestMessagesOfCallsAreBounded(t *testing.T) {
	a := &authority{}
	f := newFixture(t, asAuthority(a))
	err := f.sendReady(with(t.Context(), "pod", "a"), f.connAt("10.0.0.1"), hugeRequest(t))
	require.Equal(t, codes.ResourceExhausted, status.Code(err), err)
	require.ErrorContains(t, err, "bytes; want 65536 at most")
	require.Zero(t, a.asked.Load())
	require.Equal(t, 1.0, f.value("lateen_xds_limited_total", "limit", "call_size"))
}

// The reviews of forged tokens keep neither a stream nor another's call waiting.
func TestForgedTokensDelayNobodyElse(t *testing.T) {
	a := &authority{answered: make(chan struct{})}
	f := newFixture(t, asAuthority(a))
	ctx, cancel := context.WithCancel(with(t.Context(), "forged", "token"))
	var all sync.WaitGroup
	for range 1000 / maxStreams {
		flood := f.at("10.0.0.1")
		for range maxStreams {
			all.Go(func() {
				_, err := flood.CreateCertificate(ctx, &securityv1.IstioCertificateRequest{})
				require.Error(t, err)
			})
		}
	}
	f.eventually("reviews wait", func() bool { return a.reviews.Load() > 0 })
	d := f.deltaOf("a", clusterRequest())
	d.ack(d.recv())
	other := with(t.Context(), "pod", "b")
	answer, err := f.at("10.0.0.2").CreateCertificate(other, &securityv1.IstioCertificateRequest{})
	require.NoError(t, err)
	require.Equal(t, "b", answer.GetCertChain()[0])
	require.LessOrEqual(t, a.most.Load(), int64(8), "the reviews of one address at a time")
	f.eventually("those over the limit are refused", func() bool {
		return f.value("lateen_xds_limited_total", "limit", "calls") > 0
	})
	close(a.answered)
	cancel()
	all.Wait()
	require.LessOrEqual(t, a.most.Load(), int64(8))
}

// However many requests a Pod has, those of others wait for few of them.
func TestOnePodsCallsTakeNotAllPlaces(t *testing.T) {
	a := &authority{signing: make(chan struct{})}
	f := newFixture(t, asAuthority(a))
	client := f.at("10.0.0.1")
	ctx, cancel := context.WithCancel(with(t.Context(), "pod", "flood"))
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := client.CreateCertificate(ctx, &securityv1.IstioCertificateRequest{})
			require.Error(t, err)
		})
	}
	f.eventually("those over the limit are refused", func() bool {
		return f.value("lateen_xds_limited_total", "limit", "calls") >= 100-podCalls
	})
	f.eventually("its places are taken", func() bool { return a.asked.Load() == podPlaces })
	other := make(chan string)
	go func() {
		answer, err := client.CreateCertificate(with(t.Context(), "pod", "b"), &securityv1.IstioCertificateRequest{})
		require.NoError(t, err)
		other <- answer.GetCertChain()[0]
	}()
	f.eventually("the other one is being signed", func() bool { return a.asked.Load() == podPlaces+1 })
	cancel()
	all.Wait()
	close(a.signing)
	require.Equal(t, "b", <-other)
}

func TestCallsOfAPodHaveARate(t *testing.T) {
	a := &authority{}
	now := time.Now()
	f := newFixture(t, asAuthority(a), func(o *Options) { o.Now = func() time.Time { return now } })
	c := &call{server: f.server, ctx: t.Context()}
	defer c.release()
	id := Identity{Namespace: "default", ServiceAccount: "default", Pod: "a"}
	for range podCallRate {
		require.NoError(t, c.identified(id))
	}
	require.ErrorContains(t, c.identified(id), "has made 300 calls within a minute")
	require.Equal(t, 1.0, f.value("lateen_xds_limited_total", "limit", "call_rate"))
	id.Pod = "b"
	require.NoError(t, c.identified(id))
}

// A caller that sends no message gives its place back.
func TestCallsWithoutAMessageEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, asAuthority(&authority{}))
		s, err := f.conn.NewStream(with(t.Context(), "pod", "a"), &grpc.StreamDesc{ClientStreams: true},
			securityv1.IstioCertificateService_CreateCertificate_FullMethodName)
		require.NoError(t, err)
		begin := time.Now()
		err = s.RecvMsg(&securityv1.IstioCertificateResponse{})
		require.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
		require.Equal(t, callPatience, time.Since(begin))
	})
}

func TestACallEndsByABugAlone(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Register = func(r grpc.ServiceRegistrar) { securityv1.RegisterIstioCertificateServiceServer(r, broken{}) }
	})
	_, err := f.at("10.0.0.1").CreateCertificate(t.Context(), &securityv1.IstioCertificateRequest{})
	require.Equal(t, codes.Internal, status.Code(err))
	require.Equal(t, 1.0, f.value("pilot_total_xds_internal_errors"))
}

type broken struct {
	securityv1.UnimplementedIstioCertificateServiceServer
}

func (broken) CreateCertificate(
	context.Context, *securityv1.IstioCertificateRequest,
) (*securityv1.IstioCertificateResponse, error) {
	panic("a bug")
}
