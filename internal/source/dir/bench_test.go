package dir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/source"
)

const threeDocuments = `apiVersion: v1
kind: Service
metadata:
  name: reviews-%[1]d
  labels: {app: reviews}
spec:
  selector: {app: reviews}
  ports:
  - {name: http, port: 9080, targetPort: 9080}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: reviews-%[1]d
spec:
  replicas: 2
  selector:
    matchLabels: {app: reviews}
  template:
    metadata:
      labels: {app: reviews, version: v1}
    spec:
      containers:
      - name: reviews
        image: lateen/sample
        args: [sample, reviews]
        env:
        - {name: VERSION, value: v1}
        ports:
        - containerPort: 9080
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: reviews-%[1]d
spec:
  hosts: [reviews-%[1]d]
  http:
  - match:
    - headers: {end-user: {exact: jason}}
    route:
    - destination: {host: reviews, subset: v2}
  - route:
    - destination: {host: reviews, subset: v1}
      weight: 80
    - destination: {host: reviews, subset: v3}
      weight: 20
    timeout: 5s
    retries: {attempts: 3, perTryTimeout: 1s, retryOn: 5xx}
`

func BenchmarkRead(b *testing.B) {
	data := fmt.Appendf(nil, threeDocuments, 1)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if documents, problems := Read("reviews.yaml", data); len(documents) != 3 || len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}

// BenchmarkStart measures the time until a directory of 1,000 files with three documents each was delivered, with
// nothing recorded, and with everything recorded.
func BenchmarkStart(b *testing.B) {
	path := b.TempDir()
	for i := range 1000 {
		require.NoError(b, os.WriteFile(filepath.Join(path, fmt.Sprintf("%04d.yaml", i)), fmt.Appendf(nil, threeDocuments, i), 0o600))
	}
	start := func(b *testing.B, state string) {
		ctx, cancel := context.WithCancel(b.Context())
		objects := 0
		require.NoError(b, New(Options{Path: path, StateDir: state}).Run(ctx, func(e source.Event) {
			objects += len(e.Changes)
			cancel()
		}))
		require.Equal(b, 3000, objects)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			start(b, b.TempDir())
		}
	})
	b.Run("again", func(b *testing.B) {
		state := b.TempDir()
		start(b, state)
		for b.Loop() {
			start(b, state)
		}
	})
}
