package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
)

// CA are the metrics of the certificate authority. Those that Istio has too have its names.
type CA struct {
	// Requests counts signing requests, Issued the certificates. citadel_server_csr_count,
	// citadel_server_success_cert_issuance_count.
	Requests, Issued prometheus.Counter
	// Unauthenticated counts callers that did not prove who they are, or may not ask for others.
	// citadel_server_authentication_failure_count.
	Unauthenticated prometheus.Counter
	// Malformed counts signing requests that cannot be read, and Foreign those that name another
	// than their caller. citadel_server_csr_parsing_err_count,
	// citadel_server_id_extraction_err_count.
	Malformed, Foreign prometheus.Counter
	// Failed counts requests without a certificate, by error: "CSR_ERROR", "TTL_ERROR",
	// "CA_NOT_READY", "CERT_GEN_ERROR". citadel_server_csr_sign_err_count.
	Failed *prometheus.CounterVec
	// RootExpiry and ChainExpiry are when the root and the authority's own certificate expire, in
	// seconds since 1970. citadel_server_root_cert_expiry_timestamp,
	// citadel_server_cert_chain_expiry_timestamp, and both as …_seconds from now.
	RootExpiry, ChainExpiry prometheus.Gauge
	// Rejected counts contents of a Secret that are no authority, by Secret.
	// lateen_ca_rejected_total.
	Rejected *prometheus.CounterVec
	// RootWrites counts attempts to write the ConfigMap with the roots, by result: "written",
	// "gone" (with its namespace), "error" (retried). lateen_ca_root_writes_total.
	RootWrites *prometheus.CounterVec
}

func newCA(f promauto.Factory, now func() time.Time) CA {
	const issued = "citadel_server_"
	c := CA{
		Requests: counter(f, issued+"csr_count", "Signing requests."),
		Issued:   counter(f, issued+"success_cert_issuance_count", "Certificates that were issued."),
		Unauthenticated: counter(f, issued+"authentication_failure_count",
			"Signing requests whose caller did not prove that it may make them."),
		Malformed: counter(f, issued+"csr_parsing_err_count", "Signing requests that cannot be read."),
		Foreign: counter(f, issued+"id_extraction_err_count",
			"Signing requests that name another than their caller."),
		Failed: counters(f, issued+"csr_sign_err_count", "Signing requests that got no certificate.", "error"),
		RootExpiry: gauge(f, issued+"root_cert_expiry_timestamp",
			"When the root expires, in seconds since 1970."),
		ChainExpiry: gauge(f, issued+"cert_chain_expiry_timestamp",
			"When the authority's own certificate expires, in seconds since 1970."),
		Rejected: counters(f, "lateen_ca_rejected_total", "Contents of a Secret that are no certificate authority.",
			"secret"),
		RootWrites: counters(f, "lateen_ca_root_writes_total",
			"ConfigMaps with the roots of the mesh that were to be written.", "result"),
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: issued + "root_cert_expiry_seconds",
		Help: "Seconds until the root expires.",
	}, until(c.RootExpiry, now))
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: issued + "cert_chain_expiry_seconds",
		Help: "Seconds until the authority's own certificate expires.",
	}, until(c.ChainExpiry, now))
	for _, result := range []string{"written", "gone", "error"} {
		c.RootWrites.WithLabelValues(result)
	}
	return c
}

// until returns the seconds from now until the time in a gauge; 0 if that has none.
func until(at prometheus.Gauge, now func() time.Time) func() float64 {
	return func() float64 {
		var m dto.Metric
		if err := at.Write(&m); err != nil || m.GetGauge().GetValue() == 0 {
			return 0
		}
		return m.GetGauge().GetValue() - float64(now().Unix())
	}
}
