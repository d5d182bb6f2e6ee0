package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
)

// Identity is who is at the other end of a stream, as far as it was proven. The zero Identity is
// anonymous: a listener without an Authenticator, as the plaintext port.
type Identity struct {
	TrustDomain    string
	Namespace      string
	ServiceAccount string
	// Pod is the client's Pod; empty if that was not proven.
	Pod string
	// Expires is when the proof expires; zero if it does not say.
	Expires time.Time
}

// String returns the SPIFFE id, or "anonymous".
func (i Identity) String() string {
	if i == (Identity{}) {
		return "anonymous"
	}
	return fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", i.TrustDomain, i.Namespace, i.ServiceAccount)
}

// Authenticator proves who opens a stream, by what the context knows of the connection
// (credentials, peer) and by the metadata of the call ("authorization: Bearer …"). Its errors are
// shown to the client, with their code if they are a gRPC status, and else as Unauthenticated.
type Authenticator interface {
	// Screen returns an error if Authenticate is sure to return one. It asks nobody and does not
	// wait, so a stream without credentials is refused before it takes a place of others.
	Screen(ctx context.Context, md metadata.MD) error
	Authenticate(ctx context.Context, md metadata.MD) (Identity, error)
}

// authorize checks what a node claims against its identity. An anonymous client may claim anything:
// such a listener is for those who trust their network.
func authorize(n *Node, id Identity) error {
	if id == (Identity{}) {
		return nil
	}
	if n.Namespace != id.Namespace {
		return fmt.Errorf("node %q claims namespace %q, but its identity is %s", n.ID, n.Namespace, id)
	}
	if !strings.HasSuffix(n.Name, "."+id.Namespace) {
		return fmt.Errorf("node %q: the third field of its id must end in %q, as its identity is %s",
			n.ID, "."+id.Namespace, id)
	}
	if id.Pod != "" && n.Pod != id.Pod {
		return fmt.Errorf("node %q claims to be pod %q, but its token is that of pod %q", n.ID, n.Pod, id.Pod)
	}
	if sa := n.Metadata.ServiceAccount; sa != "" && sa != id.ServiceAccount {
		return fmt.Errorf("node %q claims service account %q, but its identity is %s", n.ID, sa, id)
	}
	return nil
}
