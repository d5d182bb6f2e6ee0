package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TestNamesInStatistics: the values are those of Istio's pilot/pkg/networking/telemetry.
func TestNamesInStatistics(t *testing.T) {
	service := model.StatPort{
		Host: "reviews.prod.svc.cluster.local", Name: "reviews", Namespace: "prod",
		Port: 7443, PortName: "grpc-svc", Subset: "v1", Target: 8443,
	}
	entry := model.StatPort{Host: "api.example.com", Name: "api.example.com", Namespace: "prod", Port: 443}
	for _, c := range []struct {
		pattern model.StatPattern
		of      model.StatPort
		want    string
	}{
		{"", service, ""},
		{"fixed", service, "fixed"},
		{"%SERVICE%", service, "reviews.prod"},
		{"%SERVICE_NAME%", service, "reviews"},
		{"%SERVICE_FQDN%_%SERVICE_PORT%", service, "reviews.prod.svc.cluster.local_7443"},
		{"%SERVICE_PORT_NAME%-%TARGET_PORT%-%SUBSET_NAME%", service, "grpc-svc-8443-v1"},
		{"%SERVICE%%SERVICE%100%", service, "reviews.prodreviews.prod100%"},
		{
			"%SERVICE%|%SERVICE_NAME%|%SERVICE_FQDN%|%TARGET_PORT%", entry,
			"api.example.com|api.example.com|api.example.com|0",
		},
	} {
		require.Equal(t, c.want, c.pattern.NameOf(c.of), "%s", c.pattern)
	}
}
