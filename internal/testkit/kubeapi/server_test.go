package kubeapi_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

var shared kubeapi.Shared

func TestMain(m *testing.M) { os.Exit(leak.Run(func() int { return shared.Run(m) })) }

// eventually waits until a condition holds, for as long as the test may run.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 3*time.Minute, 20*time.Millisecond)
}

func TestServicesGetEndpointSlicesAndOutliveARestart(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{})
	client := kubernetes.NewForConfigOrDie(api.Config())
	ctx := t.Context()
	namespace := api.Namespace(t, nil)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	_, err := client.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	require.NoError(t, err)
	api.Node(t, "node-a", nil)
	api.RunPod(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, "10.1.2.3")

	addresses := func() []string {
		slices, err := client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil
		}
		var all []string
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				all = append(all, endpoint.Addresses...)
			}
		}
		return all
	}
	eventually(t, func() bool { return fmt.Sprint(addresses()) == "[10.1.2.3]" })

	api.Stop(t)
	require.Empty(t, addresses())
	api.Restart(t)
	require.Equal(t, []string{"10.1.2.3"}, addresses())
	require.NoError(t, client.CoreV1().Pods(namespace).Delete(ctx, "web",
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	eventually(t, func() bool { return len(addresses()) == 0 })
}

func TestTokensAreIssuedAndReviewed(t *testing.T) {
	api := shared.Server(t)
	client := kubernetes.NewForConfigOrDie(api.Config())
	ctx := t.Context()
	namespace := api.Namespace(t, nil)
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"istio-ca"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	review, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token, Audiences: []string{"istio-ca"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Empty(t, review.Status.Error)
	require.Equal(t, "system:serviceaccount:"+namespace+":default", review.Status.User.Username)

	// Who may do nothing is told so: RBAC is on.
	config := api.Config()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token.Status.Token
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	require.Error(t, err)
}

func TestIstioKindsAreServed(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	client := kubernetes.NewForConfigOrDie(api.Config())
	resources, err := client.Discovery().ServerResourcesForGroupVersion("networking.istio.io/v1")
	require.NoError(t, err)
	var kinds []string
	for _, r := range resources.APIResources {
		kinds = append(kinds, r.Kind)
	}
	require.Subset(t, kinds, []string{"VirtualService", "DestinationRule", "Gateway", "ServiceEntry", "Sidecar"})
}

func TestCompactExpiresTheHistory(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true, NoWatchCache: true})
	client := kubernetes.NewForConfigOrDie(api.Config())
	ctx := t.Context()
	first, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	api.Namespace(t, nil)

	watch := func() error {
		w, err := client.CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
		if err != nil {
			return err
		}
		defer w.Stop()
		return apierrors.FromObject((<-w.ResultChan()).Object)
	}
	require.False(t, apierrors.IsResourceExpired(watch()))
	api.Compact(t)
	require.True(t, apierrors.IsResourceExpired(watch()), "%v", watch())
}

func TestSeverBreaksConnectionsAndPutPassesTheValidatorBy(t *testing.T) {
	api := shared.Server(t)
	client := kubernetes.NewForConfigOrDie(api.Config())
	ctx := t.Context()
	namespace := api.Namespace(t, nil)

	watch, err := client.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	api.Slow(time.Millisecond)
	_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	api.Slow(0)
	api.Sever()
	for range watch.ResultChan() { // ends with the connection
	}

	api.Put(t, "/registry/endpointslices/"+namespace+"/bad", []byte(`{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"endpoints": [{"addresses": ["nowhere"]}],
		"metadata": {"name": "bad", "namespace": "`+namespace+`", "uid": "d9e1b9a2-0000-4000-8000-000000000001"}}`))
	var bad *discoveryv1.EndpointSlice
	eventually(t, func() bool {
		bad, err = client.DiscoveryV1().EndpointSlices(namespace).Get(ctx, "bad", metav1.GetOptions{})
		return err == nil
	})
	require.Equal(t, "nowhere", bad.Endpoints[0].Addresses[0])
}
