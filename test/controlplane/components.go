package controlplane

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The files in a cluster's folder. Components run in that folder and use relative names. Sockets need relative names, because the
// path of a socket has at most 104 bytes on macOS.
const (
	caFile          = "ca.crt"
	servingCertFile = "kube-apiserver.crt"
	servingKeyFile  = "kube-apiserver.key"
	accountKeyFile  = "service-account.key"
	policyFile      = "audit-policy.yaml"
	auditFile       = "audit.log"
	kwokFile        = "kwok.yaml"
	// etcd requires "host:port" also in the URL of a socket, and uses "host:port" as the file's name.
	etcdSocket = "unix://etcd:0"
	peerSocket = "unix://etcd-peer:0"
)

// The names of the components as users of the API server. The audit policy contains them.
const (
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	kwokUser              = "system:kwok"
)

// featureGates disables a feature of Kubernetes 1.35 that changes a ReplicaSet and its Deployment twice more for each pod that
// ends. No pod waits for these changes.
const featureGates = "--feature-gates=DeploymentReplicaSetTerminatingReplicas=false"

func etcdArgs() []string {
	return []string{
		"--name=etcd", "--data-dir=etcd",
		"--listen-client-urls=" + etcdSocket, "--advertise-client-urls=" + etcdSocket,
		"--listen-peer-urls=" + peerSocket, "--initial-advertise-peer-urls=" + peerSocket,
		"--initial-cluster=etcd=" + peerSocket,
		// The data is not needed after the cluster has stopped.
		"--unsafe-no-fsync", "--log-level=warn",
	}
}

func apiServerArgs(port int, o Options) []string {
	args := []string{
		"--etcd-servers=" + etcdSocket,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		// The API server refuses a loopback address as an endpoint of the service "kubernetes".
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + servingCertFile, "--tls-private-key-file=" + servingKeyFile,
		"--client-ca-file=" + caFile, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + accountKeyFile, "--service-account-signing-key-file=" + accountKeyFile,
		"--service-cluster-ip-range=10.96.0.0/16",
		// maxsize 0: the log is one file, never rotated. "blocking": an event is written before its response ends.
		"--audit-policy-file=" + policyFile, "--audit-log-path=" + auditFile,
		"--audit-log-mode=blocking", "--audit-log-maxsize=0",
		featureGates,
	}
	if !o.ServiceAccounts {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return args
}

func controllerManagerArgs(o Options) []string {
	return append([]string{
		"--kubeconfig=" + kubeconfigFile(controllerManagerUser),
		"--leader-elect=false", "--secure-port=0",
		"--controllers=*,-node-ipam-controller",
		"--root-ca-file=" + caFile, "--service-account-private-key-file=" + accountKeyFile,
		"--concurrent-replicaset-syncs=" + strconv.Itoa(o.ReplicaSetSyncs),
		// Changes of a Deployment's status are a fifth of all changes, and no pod waits for them. One worker slows these
		// changes down, as Kubernetes' own limit of 20 requests a second would.
		"--concurrent-deployment-syncs=1",
		featureGates,
		"--node-monitor-grace-period=" + o.NodeMonitorGrace.String(),
		// The ratio is Kubernetes' default: 5 s with a grace period of 50 s.
		"--node-monitor-period=" + (o.NodeMonitorGrace / 10).String(),
	}, rateLimitFlags(o)...)
}

func schedulerArgs(o Options) []string {
	return append([]string{
		"--kubeconfig=" + kubeconfigFile(schedulerUser),
		"--leader-elect=false", "--secure-port=0",
	}, rateLimitFlags(o)...)
}

func rateLimitFlags(o Options) []string {
	return []string{
		"--kube-api-qps=" + strconv.Itoa(o.ControllerQPS),
		"--kube-api-burst=" + strconv.Itoa(o.ControllerBurst),
	}
}

func kwokArgs(o Options) []string {
	return []string{
		"--kubeconfig=" + kubeconfigFile(kwokUser), "--config=" + kwokFile,
		// A node must be able to leave this selector. The API server evaluates label selectors, so KWOK notices such a change. KWOK
		// itself evaluates annotation selectors, and does not notice when a node no longer matches.
		"--manage-nodes-with-label-selector=" + AnnotationKubelet + "!=stopped",
		fmt.Sprintf("--node-lease-duration-seconds=%d", leaseSeconds(o.NodeMonitorGrace)),
		"--cidr=10.128.0.1/9",
	}
}

// leaseSeconds returns the duration of node leases, in seconds. KWOK renews a lease after a quarter of its duration. A node is
// therefore NotReady after five missing renewals, as with Kubernetes' defaults (40 s, 50 s).
func leaseSeconds(grace time.Duration) int {
	return max(1, int(grace*4/5/time.Second))
}

// kwokConfig returns KWOK's configuration file: its options and the stages, with the version of the kubelets.
func kwokConfig(o Options, version string) string {
	return fmt.Sprintf(`apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: %[1]d
  nodePlayStageParallelism: %[1]d
  nodeLeaseParallelism: %[1]d
  podsOnNodeSyncParallelism: %[1]d
---
`, o.KWOKParallelism) + strings.ReplaceAll(stages, "KUBELET_VERSION", version)
}
