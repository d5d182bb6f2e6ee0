package translatetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// overADS is the rest of a bootstrap whose resources name the ADS stream, or an agent of Istio;
// nobody listens there.
const overADS = `{
  "node": {"id": "sidecar~127.0.0.2~validate.default~default.svc.cluster.local", "cluster": "validate"},
  "dynamicResources": {"adsConfig": {"apiType": "DELTA_GRPC", "transportApiVersion": "V3",
    "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}},
  "staticResources": {"clusters": [{"name": "xds", "type": "STATIC", "loadAssignment": {"clusterName": "xds",
    "endpoints": [{"lbEndpoints": [
      {"endpoint": {"address": {"socketAddress": {"address": "127.0.0.1", "portValue": 1}}}}]}]}},
    {"name": "sds-grpc", "type": "STATIC", "loadAssignment": {"clusterName": "sds-grpc",
    "endpoints": [{"lbEndpoints": [{"endpoint": {"address": {"pipe": {"path": "./nobody"}}}}]}]}}]}}`

// RequireValid has a real Envoy judge the static resources. The binary is that of the variable
// LATEEN_ENVOY, or .tools/envoy of the checkout. Without one the test is skipped, unless
// LATEEN_ENVOY_REQUIRED is set.
func RequireValid(t *testing.T, resources *bootstrapv3.Bootstrap_StaticResources) {
	t.Helper()
	binary := realenvoy.Binary(t)
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal([]byte(overADS), b))
	proto.Merge(b.StaticResources, resources)
	text, err := protojson.Marshal(b)
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "bootstrap.json")
	require.NoError(t, os.WriteFile(config, text, 0o600))
	out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "--log-level", "error", "-c", config).
		CombinedOutput()
	require.NoError(t, err, string(out))
}

// Runnable makes of a golden output's text what an Envoy here can load: the placeholders are
// addresses, and certificates are files that exist. Golden cases keep theirs in /etc/certs, and the
// system's authorities at their usual place.
func Runnable(t *testing.T) func(text string) string {
	t.Helper()
	dir := certificates(t)
	return strings.NewReplacer(
		`'`+model.OwnAny4+`'`, "127.0.0.5", `'`+model.OwnAny6+`'`, "::1",
		`'`+model.OwnPod+`'`, "127.0.0.2", `'`+model.OwnApp+`'`, "127.0.0.3", `'`+model.OwnOutbound+`'`, "127.0.0.4",
		"/etc/certs/", dir+"/", "/etc/ssl/certs/ca-certificates.crt", dir+"/ca.pem",
	).Replace
}

// certificates writes ca.pem, cert.pem, key.pem, and crl.pem, which revokes none.
func certificates(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: []byte{1},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	issuer, err := x509.ParseCertificate(cert)
	require.NoError(t, err)
	revoked, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: time.Unix(0, 0), NextUpdate: time.Unix(1<<33, 0),
	}, issuer, key)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	for file, block := range map[string]*pem.Block{
		"ca.pem":   {Type: "CERTIFICATE", Bytes: cert},
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "EC PRIVATE KEY", Bytes: der},
		"crl.pem":  {Type: "X509 CRL", Bytes: revoked},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600))
	}
	return dir
}
