package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// findEnvoy looks for the Envoy binary where make puts it, and on the PATH.
func findEnvoy(flag string) (string, error) {
	candidates := []string{flag, os.Getenv("LATEEN_ENVOY")}
	if flag == "" && candidates[1] == "" {
		candidates = append(candidates, filepath.Join(".tools", "envoy"))
		if self, err := os.Executable(); err == nil {
			candidates = append(candidates, filepath.Join(filepath.Dir(self), "..", ".tools", "envoy"))
		}
		if path, err := exec.LookPath("envoy"); err == nil {
			candidates = append(candidates, path)
		}
	}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		if info, err := os.Stat(c); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return filepath.Abs(c)
		}
		if c == flag || c == candidates[1] {
			return "", fmt.Errorf("%s is not an executable file; want the path of an Envoy binary", c)
		}
	}
	return "", errors.New("there is no Envoy: 'make envoy' fetches it to .tools/envoy, or name one with --envoy")
}

// openLog writes the log to a file beside those of the pods: the screen is for people.
func openLog(o upOptions) (*slog.Logger, error) {
	if err := os.MkdirAll(o.stateDir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(o.stateDir, "lateen.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return newLogger(f, o.level, o.format)
}

// tokenAuthenticator proves which pod an Envoy belongs to by the token that the runtime gave it.
type tokenAuthenticator struct{ tokens *local.Tokens }

// Authenticate implements serve.Authenticator.
func (a tokenAuthenticator) Authenticate(_ context.Context, md metadata.MD) (serve.Identity, error) {
	for _, v := range md.Get("authorization") {
		token, ok := strings.CutPrefix(v, "Bearer ")
		if !ok {
			continue
		}
		if id, known := a.tokens.Lookup(token); known {
			return serve.Identity{TrustDomain: "cluster.local", Namespace: id.Namespace, ServiceAccount: id.ServiceAccount}, nil
		}
	}
	return serve.Identity{}, errors.New("want the token of a pod of this mesh in the metadata authorization: Bearer …")
}
