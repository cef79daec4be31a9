package controlplane

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Files in a cluster's folder. Components run in that folder and name their files relative to it; the sockets must be,
// because the path of a socket has no more than 104 bytes on macOS.
const (
	caFile          = "ca.crt"
	servingCertFile = "kube-apiserver.crt"
	servingKeyFile  = "kube-apiserver.key"
	accountKeyFile  = "service-account.key"
	policyFile      = "audit-policy.yaml"
	auditFile       = "audit.log"
	kwokFile        = "kwok.yaml"
	// etcd wants "host:port" in a URL of a socket too, and takes both together for the file's name.
	etcdSocket = "unix://etcd:0"
	peerSocket = "unix://etcd-peer:0"
)

// Who the components are to the API server. The audit policy knows them by these names.
const (
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	kwokUser              = "system:kwok"
)

// featureGates turns off what Kubernetes 1.35 brought: two more changes of a ReplicaSet, and of its Deployment, for each pod that
// ends. No pod waits for them.
const featureGates = "--feature-gates=DeploymentReplicaSetTerminatingReplicas=false"

func etcdArgs() []string {
	return []string{
		"--name=etcd", "--data-dir=etcd",
		"--listen-client-urls=" + etcdSocket, "--advertise-client-urls=" + etcdSocket,
		"--listen-peer-urls=" + peerSocket, "--initial-advertise-peer-urls=" + peerSocket,
		"--initial-cluster=etcd=" + peerSocket,
		// The data ends with the cluster.
		"--unsafe-no-fsync", "--log-level=warn",
	}
}

func apiServerArgs(port int, o Options) []string {
	args := []string{
		"--etcd-servers=" + etcdSocket,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		// A loopback address is refused as an endpoint of the service "kubernetes".
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + servingCertFile, "--tls-private-key-file=" + servingKeyFile,
		"--client-ca-file=" + caFile, "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + accountKeyFile, "--service-account-signing-key-file=" + accountKeyFile,
		"--service-cluster-ip-range=10.96.0.0/16",
		// maxsize 0: the log is one file, never rotated. "blocking": an event is in it before its response is over.
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
		// No pod waits for what a Deployment says of itself, but everything waits for the API server that has to take it:
		// a fifth of all changes, which Kubernetes' own limit of 20 requests a second would hold back.
		"--concurrent-deployment-syncs=1",
		featureGates,
		"--node-monitor-grace-period=" + o.NodeMonitorGrace.String(),
		// As often as by default: 5 s with a grace period of 50 s.
		"--node-monitor-period=" + (o.NodeMonitorGrace / 10).String(),
	}, queryFlags(o)...)
}

func schedulerArgs(o Options) []string {
	return append([]string{
		"--kubeconfig=" + kubeconfigFile(schedulerUser),
		"--leader-elect=false", "--secure-port=0",
	}, queryFlags(o)...)
}

func queryFlags(o Options) []string {
	return []string{
		"--kube-api-qps=" + strconv.Itoa(o.ControllerQPS),
		"--kube-api-burst=" + strconv.Itoa(o.ControllerBurst),
	}
}

func kwokArgs(o Options) []string {
	return []string{
		"--kubeconfig=" + kubeconfigFile(kwokUser), "--config=" + kwokFile,
		// Of the selectors that KWOK offers only this one gives a node back: a label is selected by the API server,
		// an annotation by KWOK, which overlooks that a node no longer matches.
		"--manage-nodes-with-label-selector=" + AnnotationKubelet + "!=stopped",
		fmt.Sprintf("--node-lease-duration-seconds=%d", leaseSeconds(o.NodeMonitorGrace)),
		"--cidr=10.128.0.1/9",
	}
}

// leaseSeconds is the duration of node leases, in seconds. KWOK renews a lease when a quarter of it is over, so that a
// node is NotReady when five renewals in a row are missing, as it is by default (40 s, 50 s).
func leaseSeconds(grace time.Duration) int {
	return max(1, int(grace*4/5/time.Second))
}

// kwokConfig is KWOK's configuration file: its options and the stages, with kubelets of the version.
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
