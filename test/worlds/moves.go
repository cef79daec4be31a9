package worlds

import (
	"fmt"
	"math/rand/v2"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// Rollout is how a workload's Deployment creates new pods; it is empty for a ReplicaSet without a Deployment.
type Rollout string

// The rollouts.
const (
	Surges      Rollout = "surges"
	SurgesByOne Rollout = "surges by one pod"
	ManyNodes   Rollout = "surges with a volume for many nodes"
	OneNode     Rollout = "has a volume for one node"
	Recreates   Rollout = "recreates"
	NoSurge     Rollout = "does not surge"
	AllMissing  Rollout = "may miss all pods"
	Halted      Rollout = "is paused"
)

func allRollouts() []Rollout {
	return []Rollout{Surges, SurgesByOne, ManyNodes, OneNode, Recreates, NoSurge, AllMissing, Halted}
}

// createsPodFirst reports whether a restart creates a new pod before it deletes an old one.
func (o Rollout) createsPodFirst() bool { return o == Surges || o == SurgesByOne || o == ManyNodes }

// bounds returns by how many pods a rollout exceeds the replicas, and how many pods may be missing during the rollout.
func (o Rollout) bounds(replicas int) (surge, missing int) {
	switch o {
	case SurgesByOne:
		return 1, 0
	case NoSurge, Recreates:
		return 0, 1
	case AllMissing:
		return 1, replicas
	default: // a quarter of each: the surge is rounded up, the missing pods are rounded down
		return (replicas + 3) / 4, replicas / 4
	}
}

// drawRestarts makes some requests ask for restarts instead of evictions of only ready pods (--move=surge). It adds Deployments to
// these worlds, some with only one pod. It draws from its own generator, so that all other worlds stay the same.
func drawRestarts(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6d6f7665))}
	if p.isDelegated() || p.isShortLived() || !d.chance(20) {
		return // without evictions there is nothing to move
	}
	p.Request.Move = record.MoveBySurge
	for i := range p.Workloads {
		d.setRollout(&p.Workloads[i])
	}
	if d.chance(20) {
		w := d.drawPair()
		p.Workloads, p.Request.IgnoreUnready = append(p.Workloads, w), []string{w.id().String()}
	}
	for i := range 1 + d.IntN(2) {
		w := Workload{
			Name: fmt.Sprintf("solo%d", i), Kind: Deployment, Replicas: 1,
			Ready: d.between(time.Second, 40*time.Second), Gone: pick(d, 0, time.Second, d.between(0, 90*time.Second)),
			Tolerant: d.chance(8), Crashes: d.chance(8),
		}
		if d.chance(10) {
			w.Role = pick(d, Hook, Driver, Protected)
		}
		d.setRollout(&w)
		p.Workloads = append(p.Workloads, w)
		d.addBudgets(p, w)
	}
	if !p.isUndisturbed() {
		d.addRestartTrouble(p)
	}
}

// drawPair returns a workload with two pods that take at least lastReadyWait to become ready.
func (d dice) drawPair() Workload {
	w := Workload{Name: "pair", Kind: Deployment, Replicas: 2, Ready: d.between(lastReadyWait, 5*time.Minute), Role: pick(d, "", Hook)}
	w.Rollout = pick(d, Surges, SurgesByOne)
	return w
}

// setRollout draws the Deployment of a workload with a ReplicaSet.
func (d dice) setRollout(w *Workload) {
	if w.Kind != Deployment {
		return
	}
	w.Rollout = pick(d, Surges, Surges, Surges, SurgesByOne, SurgesByOne, ManyNodes, OneNode, Recreates, NoSurge, AllMissing, Halted)
	w.Claims = w.Claims && w.Rollout != ManyNodes && w.Rollout != OneNode // the pods of these two rollouts define their own volume
}

// addRestartTrouble adds faults and actors that affect restarts.
func (d dice) addRestartTrouble(p *Plan) {
	for range d.IntN(3) {
		p.Faults = append(p.Faults, Fault{Kind: pick(d, restartFaults()...), To: d.between(10*time.Minute, time.Hour), Percent: pick(d, 50, 100)})
	}
	if d.chance(60) {
		for range 1 + d.IntN(3) {
			p.Actors = append(p.Actors, Actor{Kind: OwnerDeploys, At: d.between(2*time.Second, 10*time.Minute), Pick: d.IntN(1000)})
		}
	}
}

// isMovable reports whether restarts move the workload's pods without a gap, according to the plan.
func (w *Workload) isMovable() bool { return w.Rollout.createsPodFirst() && !w.Claims }

// deployment is a workload's Deployment, which creates ReplicaSets.
type deployment struct {
	rollout Rollout
	uid     types.UID
	// moved is the pod for which the upgrade last restarted the Deployment, as in its annotation.
	moved types.UID
	// sets is the number of pods that each ReplicaSet wants, the newest last.
	sets []int
	// syncing is true while a run of its controller is scheduled.
	syncing bool
}

func newDeployment(w *Workload) *deployment {
	if w.Rollout == "" {
		return nil
	}
	return &deployment{rollout: w.Rollout, uid: types.UID("deployment-" + w.Name), sets: []int{w.Replicas}}
}

// templateHash is the label by which a Deployment's ReplicaSet selects its pods.
const templateHash = "pod-template-hash"

func replicaSetHash(set int) string { return fmt.Sprintf("t%d", set) }

// adoptPod gives a new pod the labels, the owner and the volume of a ReplicaSet of the Deployment.
func (o *deployment) adoptPod(m *controller, pod *corev1.Pod, set int) {
	pod.Labels[templateHash] = replicaSetHash(set)
	owner := &pod.OwnerReferences[0]
	owner.Name, owner.UID = m.Name+"-"+replicaSetHash(set), types.UID(fmt.Sprintf("owner-%s-%s", m.Name, replicaSetHash(set)))
	if m.Rollout == OneNode || m.Rollout == ManyNodes {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: m.Name},
		}}}
	}
}

// toAPIObject returns the Deployment as the API server shows it.
func (o *deployment) toAPIObject(m *controller) *appsv1.Deployment {
	replicas := int32(m.Replicas)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.Name, UID: o.uid}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	rolling := func(surge, missing intstr.IntOrString) {
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &missing}
	}
	switch o.rollout {
	case SurgesByOne:
		rolling(intstr.FromInt(1), intstr.FromInt(0))
	case NoSurge:
		rolling(intstr.FromInt(0), intstr.FromInt(1))
	case AllMissing:
		rolling(intstr.FromInt(1), intstr.FromString("100%"))
	case Recreates:
		d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	case Halted:
		d.Spec.Paused = true
	default:
		rolling(intstr.FromString("25%"), intstr.FromString("25%"))
	}
	return d
}

// listDeployments returns the cluster's Deployments and the volume claims of their pods.
func (c *cluster) listDeployments() (all []*appsv1.Deployment, claims []*corev1.PersistentVolumeClaim) {
	for _, name := range sortedKeys(c.controllers) {
		m := c.controllers[name]
		if m.deployment == nil {
			continue
		}
		all = append(all, m.deployment.toAPIObject(m))
		mode := corev1.ReadWriteOnce
		if m.Rollout == ManyNodes {
			mode = corev1.ReadWriteMany
		}
		claims = append(claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}}})
	}
	return all, claims
}

// changeDeployment simulates the owner of a Deployment, who changes its rollout, or recreates it without deleting its pods.
func (u *user) changeDeployment(pick int) (acted bool) {
	var all []*controller
	for _, name := range sortedKeys(u.c.controllers) {
		if m := u.c.controllers[name]; m.deployment != nil {
			all = append(all, m)
		}
	}
	if len(all) == 0 {
		return false
	}
	o := all[pick%len(all)].deployment
	switch pick % 7 {
	case 0, 1:
		o.rollout = Recreates
	case 2:
		o.rollout = Halted
	default:
		o.uid, o.moved = o.uid+"-again", ""
	}
	return true
}
