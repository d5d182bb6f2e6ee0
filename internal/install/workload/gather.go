package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingclient "istio.io/client-go/pkg/clientset/versioned/typed/networking/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/install"
)

// Wish is what Gather is to configure a machine for.
type Wish struct {
	// Namespace and Name are those of the WorkloadGroup in the cluster; Group is one that is not
	// there, in their place.
	Namespace, Name string
	Group           *networkingv1.WorkloadGroup
	RootNamespace   string
	Revision        string // of the control plane; empty stands for the only one
	ClusterID       string
	Discovery       string // empty: "istiod.ROOT.svc:15012", or what the mesh configuration says
	ControlPlane    netip.Addr
	Address         netip.Addr
	Registers       bool
	CaptureDNS      bool
	// TokenLife is how long the token is good. The API server may shorten it.
	TokenLife time.Duration
}

const (
	rootsName    = "istio-ca-root-cert" // the ConfigMap of each namespace
	rootsKey     = "root-cert.pem"
	audience     = "istio-ca"
	networkLabel = "topology.istio.io/network"
)

// Gather asks the cluster for what a machine needs, and makes a token for it.
func Gather(ctx context.Context, config *rest.Config, w Wish) (Machine, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Machine{}, err
	}
	m := Machine{
		Group:        w.Group,
		ClusterID:    w.ClusterID,
		Discovery:    w.Discovery,
		ControlPlane: w.ControlPlane,
		Address:      w.Address,
		Registers:    w.Registers,
		CaptureDNS:   w.CaptureDNS,
		Revision:     w.Revision,
	}
	if m.Group == nil {
		api, err := networkingclient.NewForConfig(config)
		if err != nil {
			return m, err
		}
		if m.Group, err = api.WorkloadGroups(w.Namespace).Get(ctx, w.Name, metav1.GetOptions{}); err != nil {
			return m, fmt.Errorf("the WorkloadGroup: %w", err)
		}
	}
	if err := m.checkGroup(); err != nil {
		return m, err
	}
	if err := m.readMesh(ctx, core, w); err != nil {
		return m, err
	}
	if m.Network = m.Group.Spec.GetTemplate().GetNetwork(); m.Network == "" {
		root, err := core.CoreV1().Namespaces().Get(ctx, w.RootNamespace, metav1.GetOptions{})
		if err != nil {
			return m, fmt.Errorf("the root namespace: %w; want --istio-namespace", err)
		}
		m.Network = root.Labels[networkLabel]
	}
	roots, err := core.CoreV1().ConfigMaps(m.Group.Namespace).Get(ctx, rootsName, metav1.GetOptions{})
	if err != nil {
		return m, fmt.Errorf("the roots of the mesh: %w; the control plane writes them into each namespace of the "+
			"mesh", err)
	}
	m.Roots = []byte(roots.Data[rootsKey])
	m.Token, err = tokenOf(ctx, core, m.Group, w.TokenLife)
	return m, err
}

func (m Machine) checkGroup() error {
	switch {
	case m.Group.Name == "" || m.Group.Namespace == "":
		return errors.New("the WorkloadGroup has no name or no namespace")
	case m.Group.Spec.GetTemplate().GetServiceAccount() == "":
		return fmt.Errorf("WorkloadGroup %s/%s: spec.template.serviceAccount is empty; want the account by which the "+
			"machine proves itself", m.Group.Namespace, m.Group.Name)
	}
	return nil
}

// readMesh reads the mesh configuration, which need not be there.
func (m *Machine) readMesh(ctx context.Context, core kubernetes.Interface, w Wish) error {
	standard := model.DefaultMesh()
	m.TrustDomain = standard.TrustDomain
	names := install.NamesOf(w.RootNamespace, w.Revision)
	found, err := core.CoreV1().ConfigMaps(w.RootNamespace).Get(ctx, names.MeshConfig, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the mesh configuration: %w", err)
	}
	var config struct {
		TrustDomain   string         `json:"trustDomain"`
		DefaultConfig map[string]any `json:"defaultConfig"`
	}
	if err == nil {
		if err := yaml.Unmarshal([]byte(found.Data["mesh"]), &config); err != nil {
			return fmt.Errorf("the mesh configuration in ConfigMap %s/%s: %w", w.RootNamespace, names.MeshConfig, err)
		}
	}
	m.TrustDomain, m.Defaults = cmp.Or(config.TrustDomain, m.TrustDomain), config.DefaultConfig
	stated, _ := config.DefaultConfig["discoveryAddress"].(string)
	m.Discovery = cmp.Or(m.Discovery, stated, names.Discovery())
	return nil
}

// tokenOf makes a token of the group's service account.
func tokenOf(
	ctx context.Context, core kubernetes.Interface, group *networkingv1.WorkloadGroup, life time.Duration,
) (string, error) {
	account, seconds := group.Spec.GetTemplate().GetServiceAccount(), int64(life.Seconds())
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}, ExpirationSeconds: &seconds},
	}
	made, err := core.CoreV1().ServiceAccounts(group.Namespace).CreateToken(ctx, account, request,
		metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("a token of the ServiceAccount %s/%s: %w", group.Namespace, account, err)
	}
	return made.Status.Token, nil
}
