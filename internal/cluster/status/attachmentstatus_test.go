package status

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TestStatusesKeepTheLimitsOfTheAPI: the API server refuses a whole status for one field.
func TestStatusesKeepTheLimitsOfTheAPI(t *testing.T) {
	wanted := &model.GatewayAPIStatus{Meta: model.Meta{Kind: kinds.KubernetesGateway}}
	wanted.Accepted = model.Condition{Reason: "Invalid", Message: strings.Repeat("é", longestMessage)}
	for i := range 20 {
		wanted.Addresses = append(wanted.Addresses, fmt.Sprintf("10.0.0.%d", i))
	}
	status, _, err := (&liveAttachment{}).with(attached{status: wanted}, time.Unix(0, 0))
	require.NoError(t, err)
	require.Len(t, status["addresses"].([]gatewayv1.GatewayStatusAddress), 16)

	wanted.Accepted.Message = "x" + wanted.Accepted.Message // the limit is within a letter
	message := cut(wanted.Accepted.Message)
	require.True(t, utf8.ValidString(message))
	require.Len(t, message, longestMessage-1)
}
