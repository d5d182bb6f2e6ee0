// Package reach finds the Pods of a control plane in a cluster, and connects to ports of Pods as
// kubectl port-forward does: through the API server and the kubelet, to the Pod's loopback address.
// It listens nowhere. It may import api/kinds and install.
package reach
