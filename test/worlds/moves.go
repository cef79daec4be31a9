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

// Rollout is how the Deployment of a workload brings up new pods; empty for a ReplicaSet that has none.
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

// surges reports whether a restart brings another pod up before one goes.
func (o Rollout) surges() bool { return o == Surges || o == SurgesByOne || o == ManyNodes }

// bounds are by how many pods a rollout exceeds the replicas, and how many of them may be missing meanwhile.
func (o Rollout) bounds(replicas int) (surge, missing int) {
	switch o {
	case SurgesByOne:
		return 1, 0
	case NoSurge, Recreates:
		return 0, 1
	case AllMissing:
		return 1, replicas
	default: // a quarter of each, of which one is rounded up
		return (replicas + 3) / 4, replicas / 4
	}
}

// moves has some requests ask for restarts instead of evictions of only ready pods, and gives their worlds Deployments to restart, of which
// some have one pod. It has dice of its own, so that all other worlds stay as they are.
func moves(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x6d6f7665))}
	if p.delegated() || p.shortLived() || !d.chance(20) {
		return // where nothing is evicted there is nothing to be moved
	}
	p.Request.Move = record.MoveBySurge
	for i := range p.Workloads {
		d.deploys(&p.Workloads[i])
	}
	if d.chance(20) {
		w := d.pair()
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
		d.deploys(&w)
		p.Workloads = append(p.Workloads, w)
		d.budgets(p, w)
	}
	if !p.quiet() {
		d.disturbs(p)
	}
}

// pair is a workload of two pods that take longer to be ready than the last ready one waits for the other.
func (d dice) pair() Workload {
	w := Workload{Name: "pair", Kind: Deployment, Replicas: 2, Ready: d.between(lastReady, 5*time.Minute), Role: pick(d, "", Hook)}
	w.Rollout = pick(d, Surges, SurgesByOne)
	return w
}

// deploys gives a workload of a ReplicaSet a Deployment.
func (d dice) deploys(w *Workload) {
	if w.Kind != Deployment {
		return
	}
	w.Rollout = pick(d, Surges, Surges, Surges, SurgesByOne, SurgesByOne, ManyNodes, OneNode, Recreates, NoSurge, AllMissing, Halted)
	w.Claims = w.Claims && w.Rollout != ManyNodes && w.Rollout != OneNode // which say what they have
}

// disturbs adds what goes wrong with restarts.
func (d dice) disturbs(p *Plan) {
	for range d.IntN(3) {
		p.Faults = append(p.Faults, Fault{Kind: pick(d, restartFaults()...), To: d.between(10*time.Minute, time.Hour), Percent: pick(d, 50, 100)})
	}
	if d.chance(60) {
		for range 1 + d.IntN(3) {
			p.Actors = append(p.Actors, Actor{Kind: OwnerDeploys, At: d.between(2*time.Second, 10*time.Minute), Pick: d.IntN(1000)})
		}
	}
}

// movable reports whether restarts move the workload's pods without a gap, as far as the plan goes.
func (w *Workload) movable() bool { return w.Rollout.surges() && !w.Claims }

// deployment is what makes the ReplicaSets of a workload.
type deployment struct {
	rollout Rollout
	uid     types.UID
	// moved is the pod that its last restart of ours was for, as its annotation says.
	moved types.UID
	// sets are how many pods each of its ReplicaSets is to have, the newest last.
	sets []int
	// syncing is true while its controller is due.
	syncing bool
}

func newDeployment(w *Workload) *deployment {
	if w.Rollout == "" {
		return nil
	}
	return &deployment{rollout: w.Rollout, uid: types.UID("deployment-" + w.Name), sets: []int{w.Replicas}}
}

// templateHash is the label by which a ReplicaSet of a Deployment knows its pods.
const templateHash = "pod-template-hash"

func hashOf(set int) string { return fmt.Sprintf("t%d", set) }

// own has a new pod be one of a ReplicaSet of the Deployment.
func (o *deployment) own(m *maker, pod *corev1.Pod, set int) {
	pod.Labels[templateHash] = hashOf(set)
	owner := &pod.OwnerReferences[0]
	owner.Name, owner.UID = m.Name+"-"+hashOf(set), types.UID(fmt.Sprintf("owner-%s-%s", m.Name, hashOf(set)))
	if m.Rollout == OneNode || m.Rollout == ManyNodes {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: m.Name},
		}}}
	}
}

// object is the Deployment as the API server shows it.
func (o *deployment) object(m *maker) *appsv1.Deployment {
	replicas := int32(m.Replicas)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: m.Name, UID: o.uid}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
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

// listDeployments are the Deployments of the cluster and the claims of their pods.
func (c *cluster) listDeployments() (all []*appsv1.Deployment, claims []*corev1.PersistentVolumeClaim) {
	for _, name := range sortedKeys(c.makers) {
		m := c.makers[name]
		if m.deployment == nil {
			continue
		}
		all = append(all, m.deployment.object(m))
		mode := corev1.ReadWriteOnce
		if m.Rollout == ManyNodes {
			mode = corev1.ReadWriteMany
		}
		claims = append(claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}}})
	}
	return all, claims
}

// redeploy is the owner of a workload who makes its Deployment again, keeping its pods, or changes how it is rolled out.
func (u *user) redeploy(pick int) bool {
	var all []*maker
	for _, name := range sortedKeys(u.c.makers) {
		if m := u.c.makers[name]; m.deployment != nil {
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
