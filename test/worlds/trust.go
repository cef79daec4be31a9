package worlds

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodegroup"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/upgrade/record"
)

// drawStandby puts an outdated instance of some AWS groups on Standby before the upgrade. Its node is silent. It draws from its own
// generator.
func drawStandby(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x7374616e))}
	if p.Provider != "aws" || p.Request.Strategy != record.Surge || p.countOutdated() <= max(1, p.Request.Surge) || !d.chance(15) {
		return
	}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; !n.Current && n.Marks == 0 {
			n.Standby, n.Marks = true, MarkSilent
			return
		}
	}
}

func (p *Plan) countStandby() (n int) {
	for _, node := range p.Nodes {
		if node.Standby {
			n++
		}
	}
	return n
}

// checkStandbyUntouched checks that the upgrade does not terminate instances on Standby, and names them when it succeeds.
func (r *rules) checkStandbyUntouched(rec record.Record) {
	if rec.Run == "" {
		return
	}
	for i, n := range r.c.plan.Nodes {
		if !n.Standby {
			continue
		}
		name := nodeName(n, i)
		switch instance := r.c.cloud.instances["i-"+name]; {
		case instance == nil || instance.leaving:
			r.fail("standby", "instance i-%s, which was on Standby, is gone", name)
		case rec.Result == record.Succeeded && !strings.Contains(rec.Message, "kept, because they are on Standby: i-"+name):
			r.fail("standby", "the message does not say that i-%s was kept: %q", name, rec.Message)
		}
		r.tally.count("trust", onStandby)
	}
}

// setStrayMarks gives outdated nodes of some groups annotations of this program that no run of the world wrote. It draws from its own
// generator.
func setStrayMarks(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73747279))}
	if p.isDelegated() || p.isShortLived() || !d.chance(12) {
		return
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Stray = !n.Current && n.Marks&MarkNoNode == 0 && d.chance(50)
	}
}

// writeStrayMarks writes annotations on a node that no run of the world wrote.
func writeStrayMarks(node *corev1.Node) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, nodemark.AnnotationDeadline, nodemark.FormatTime(node.CreationTimestamp.Time))
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, nodemark.AnnotationOwner, `{"namespace":"ops","group":"other","epoch":7}`)
	nodemark.SetEpoch(node, 7)
	writeSmallerBaseline(node)
}

// noteStray reports whether the node is Stray in the plan, and counts such nodes in the tally.
func (r *rules) noteStray(name string) (isStray bool) {
	for i, n := range r.c.plan.Nodes {
		if n.Stray && nodeName(n, i) == name {
			r.tally.count("trust", stray)
			return true
		}
	}
	return false
}

// withoutOurAnnotations returns the node without annotations of this program.
func withoutOurAnnotations(node *corev1.Node) *corev1.Node {
	bare := node.DeepCopy()
	maps.DeleteFunc(bare.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, nodemark.Domain+"/") })
	if len(bare.Annotations) == 0 {
		bare.Annotations = nil
	}
	return bare
}

// addMachineChanges adds an actor to some worlds that changes a node's machine in the record. It draws from its own generator.
func addMachineChanges(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x61696d65))}
	if !p.listsMachines() || p.isDelegated() || p.isShortLived() || p.keepsTarget() || p.Denial.Kind != "" || !d.chance(12) {
		return
	}
	most := pick(d, 5*time.Minute, 15*time.Minute, time.Hour)
	for range 6 {
		p.Actors = append(p.Actors, Actor{Kind: RecordMachineChanged, At: d.between(time.Second, most), Pick: d.IntN(1000)})
	}
}

// changeRecordedMachine kills the process and writes another machine into the record of a started node: a machine of the group, or a
// foreign one.
func (u *user) changeRecordedMachine(pick int) (acted bool) {
	if u.tamperedNode != "" || u.process.dead {
		return false
	}
	var started []string
	for _, name := range sortedKeys(u.stored.record.Nodes) {
		if n := u.stored.record.Nodes[name]; n.Instance != "" && n.Batch > 0 && u.c.nodes[name] != nil && u.c.cloud.instances[n.Instance] != nil {
			started = append(started, name)
		}
	}
	if len(started) == 0 {
		return false
	}
	u.tamperedNode = started[pick%len(started)]
	target := foreignMachine
	if others := u.c.cloud.liveInstances(); pick%2 == 0 && len(others) > 0 {
		target = others[pick%len(others)].id
	}
	n := u.stored.record.Nodes[u.tamperedNode]
	if n.Instance == target {
		target = foreignMachine
	}
	u.process.crash()
	u.rules.recordedMachine[u.tamperedNode] = n.Instance
	n.Instance = target
	u.stored.record.Nodes = maps.Clone(u.stored.record.Nodes)
	u.stored.record.Nodes[u.tamperedNode] = n
	u.rules.logf("the record names %s for node %s", target, u.tamperedNode)
	return true
}

// foreignMachine is a machine that does not belong to the group.
const foreignMachine = "i-elsewhere-outside"

// repairRecord simulates the user, who corrects the record after the upgrade has reported the change.
func (u *user) repairRecord(record record.Record) {
	if named := u.recordedRevisionBefore(); named.ID == madeUp && strings.Contains(record.Message, "to set the group's revision to workers:"+madeUp) {
		u.rules.tally.count("trust", revisionChanged)
		*named = u.realPrevious
	}
	n, known := u.stored.record.Nodes[u.tamperedNode]
	if u.tamperedNode == "" || !known || !reportsChangedRecord(&record) {
		return
	}
	u.rules.tally.count("trust", machineChanged)
	n.Instance = u.rules.recordedMachine[u.tamperedNode]
	u.stored.record.Nodes = maps.Clone(u.stored.record.Nodes)
	u.stored.record.Nodes[u.tamperedNode] = n
}

func reportsChangedRecord(rec *record.Record) bool {
	return rec.Result == record.Failed && strings.Contains(rec.Message, "another process changed the record")
}

// checkOwnMachine checks S31: an upgrade that terminates a node terminates only the node's own machine.
func (r *rules) checkOwnMachine(a nodegroup.Terminate) {
	node := r.c.nodes[a.Node]
	if a.Instance == foreignMachine {
		r.fail("S31", "%s, but the machine does not belong to the group", a)
	}
	if node != nil && !strings.HasSuffix(node.Spec.ProviderID, "/"+a.Instance) {
		r.fail("S31", "%s for node %s, whose machine is %s", a, a.Node, node.Spec.ProviderID)
	}
}

// checkRebuilds checks S30: a lost record can be rebuilt from the annotations of the fenced nodes. The rebuild fails if a fenced node
// contradicts the others. Annotations of other nodes are ignored. No rebuilt deadline is later than the drain limit allows.
func (r *rules) checkRebuilds(p *process, w *upgrade.World) {
	if p.turns%10 != 7 || !r.undisturbed || !r.c.plan.hasSize() || w.Record.Run == "" || w.Record.Sizes.Desired == 0 {
		return
	}
	fenced, others := splitFenced(w)
	if len(fenced) < 2 {
		return
	}
	r.tally.count("trust", recordLost)
	if w.Record.Sizes.Desired > 1 {
		r.checkContradiction(w, fenced[0], writeSmallerBaseline)
	}
	r.checkContradiction(w, fenced[1], func(n *corev1.Node) { n.Annotations[nodemark.AnnotationRun] = "evil" })
	record, err := rebuildWithLie(w, fenced[0], func(n *corev1.Node) {
		n.Annotations[nodemark.AnnotationDeadline] = nodemark.FormatTime(w.Now.Add(1000 * time.Hour))
	})
	r.checkRebuiltRecord(w, &record, err)
	for _, name := range sortedKeys(record.Nodes) {
		n := record.Nodes[name]
		if n.Deadline.After(w.Now.Add(w.Request.DrainTimeout.Duration)) {
			r.fail("S30", "the rebuilt record gives node %s time until %s, as its annotation says", name, n.Deadline)
		}
		if !n.Deadline.IsZero() && n.Deadline.Before(worldStart()) {
			r.fail("S30", "the rebuilt record has node %s as draining, because of an annotation that the run did not write", name)
		}
	}
	if len(others) > 0 {
		record, err := rebuildWithLie(w, others[0], func(n *corev1.Node) {
			nodemark.SetHold(n, "evil")
			writeSmallerBaseline(n)
		})
		r.checkRebuiltRecord(w, &record, err)
	}
}

// splitFenced returns the indexes of the members whose nodes the run has fenced, and of the other members with a node.
func splitFenced(w *upgrade.World) (fenced, others []int) {
	for i := range w.Members {
		switch m := &w.Members[i]; {
		case m.Node == nil:
		case m.IsFenced(w.Record.Run, nodegroup.FenceTaint(w.Group.Provider)):
			fenced = append(fenced, i)
		default:
			others = append(others, i)
		}
	}
	return fenced, others
}

// writeSmallerBaseline changes a node's annotation about the group before the upgrade: the group had only one node.
func writeSmallerBaseline(node *corev1.Node) {
	nodemark.SetGroupBaseline(node, `{"desired":1,"min":0,"max":1}`)
}

// rebuildWithLie rebuilds the record after lie has changed one of the nodes.
func rebuildWithLie(w *upgrade.World, at int, lie func(*corev1.Node)) (record.Record, error) {
	lost := *w
	lost.Record, lost.Members = record.Record{}, slices.Clone(w.Members)
	m := nodegroup.Member{Instance: w.Members[at].Instance, Outdated: w.Members[at].Outdated, Pods: w.Members[at].Pods, Node: w.Members[at].Node.DeepCopy()}
	lie(m.Node)
	lost.Members[at] = m
	return upgrade.RebuildRecord(lost)
}

// checkContradiction checks that the rebuild fails if a fenced node contradicts the others.
func (r *rules) checkContradiction(w *upgrade.World, at int, lie func(*corev1.Node)) {
	if record, err := rebuildWithLie(w, at, lie); !errors.Is(err, upgrade.ErrBaselineLost) {
		r.fail("S30", "node %s contradicts the other fenced nodes, but the record is rebuilt as run %q of %d nodes: %v", w.Members[at].Name(), record.Run, record.Sizes.Desired, err)
	}
}

// checkRebuiltRecord checks that a rebuilt record has the run and the size of the true one.
func (r *rules) checkRebuiltRecord(w *upgrade.World, record *record.Record, err error) {
	if err != nil || record.Run != w.Record.Run || record.Sizes.Desired != w.Record.Sizes.Desired {
		r.fail("S30", "a lost record is rebuilt as run %q of %d nodes, but was run %q of %d: %v", record.Run, record.Sizes.Desired, w.Record.Run, w.Record.Sizes.Desired, err)
	}
}

// madeUp is the ID of a revision that does not exist.
const madeUp = "made-up"

// addRevisionChanges adds an actor to some worlds in which a user aborts the upgrade. The actor replaces the recorded revision from
// before the upgrade by a revision that does not exist. Worlds with a rollback have no such actor, because package plugin refuses a
// rollback to such a revision. It draws from its own generator.
func addRevisionChanges(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x706f696e))}
	if !p.Repoint || !p.hasActor(Aborts) || p.hasActor(RollsBack) || p.isDelegated() || p.isShortLived() || p.Denial.Kind != "" || !d.chance(60) {
		return
	}
	for range 4 {
		p.Actors = append(p.Actors, Actor{Kind: RecordRevisionChanged, At: d.between(time.Second, 15*time.Minute)})
	}
}

// changeRecordedRevision kills the process and writes another revision into the record as the one before the upgrade.
func (u *user) changeRecordedRevision(int) (acted bool) {
	named := u.recordedRevisionBefore()
	if u.process.dead || named.ID == "" || named.ID == madeUp {
		return false
	}
	u.process.crash()
	u.realPrevious, *named = *named, revisionOf(madeUp)
	return true
}

// recordedRevisionBefore returns the field of the record that contains the revision before the upgrade.
func (u *user) recordedRevisionBefore() *nodegroup.Revision {
	if record := &u.stored.record; record.Pointed.ID != "" {
		return &record.Pointed
	}
	return &u.stored.record.Previous
}

// addAnnotationOverwrites adds actors to some worlds that overwrite a node's baseline annotation with unreadable text. It draws
// from its own generator.
func addAnnotationOverwrites(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73637269))}
	if p.isDelegated() || p.isShortLived() || p.Denial.Kind != "" || !d.chance(8) {
		return
	}
	most := pick(d, 5*time.Minute, 15*time.Minute, time.Hour)
	for range 3 {
		p.Actors = append(p.Actors, Actor{Kind: AnnotationOverwritten, At: d.between(time.Second, most), Pick: d.IntN(1000)})
	}
}

// unreadable is part of the message of an upgrade that cannot parse an annotation.
const unreadable = "cannot be read"

// overwriteBaseline overwrites a node's baseline annotation. The state of the node before the upgrade is lost.
func (u *user) overwriteBaseline(pick int) (acted bool) {
	name := u.pickNode(pick, func(n *corev1.Node) bool { return n.Labels[groupLabel] != "" })
	if name == "" {
		return false
	}
	u.rules.stripped[name] = true
	u.c.changeNode(name, func(n *corev1.Node) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, nodemark.AnnotationNodeBaseline, "{")
	})
	return true
}

// removeUnreadable simulates the user, who removes the unreadable annotations that the command names. The command refuses to begin
// while the node has them.
func (u *user) removeUnreadable() {
	for _, name := range u.c.nodeNames() {
		for found := nodemark.FindUnreadable(u.c.nodes[name]); found != nil; found = nodemark.FindUnreadable(u.c.nodes[name]) {
			u.rules.tally.count("trust", scribbled)
			u.c.changeNode(name, func(n *corev1.Node) { delete(n.Annotations, found.Annotation) })
		}
	}
}

// The words of the tally about changed records and annotations, and about instances that must stay.
const (
	onStandby       = "an instance is on Standby"
	machineChanged  = "a record is aimed at another machine"
	revisionChanged = "a record points at another revision"
	recordLost      = "a record would be lost"
	scribbled       = "an annotation cannot be read"
	stray           = "a node has stray annotations"
)

func trustWords() []string {
	return []string{onStandby, machineChanged, revisionChanged, recordLost, scribbled, stray}
}
