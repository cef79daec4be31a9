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

// drawStandby makes the owner of some AWS groups take an outdated instance out of service before the upgrade. Its node is silent since
// then. It draws from its own generator.
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

// checkStandbyUntouched checks that the upgrade does not touch instances on Standby, and names them when it succeeds.
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
			r.fail("standby", "it does not say that i-%s was left alone: %q", name, rec.Message)
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

// noteStray reports whether the node had annotations of this program before the world's first run.
func (r *rules) noteStray(name string) bool {
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

// addMachineChanges adds, in some worlds, another actor who may write the record and changes a node's machine there. It draws from its own
// generator.
func addMachineChanges(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x61696d65))}
	if !p.listsMachines() || p.isDelegated() || p.isShortLived() || p.keepsTarget() || p.Denial.Kind != "" || !d.chance(12) {
		return
	}
	most := pick(d, 5*time.Minute, 15*time.Minute, time.Hour)
	for range 6 {
		p.Actors = append(p.Actors, Actor{Kind: RecordAimed, At: d.between(time.Second, most), Pick: d.IntN(1000)})
	}
}

// changeRecordedMachine kills the process and writes another machine into the record of a started node: a machine of the group, or a foreign one.
func (u *user) changeRecordedMachine(pick int) bool {
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

// repairRecord acts as the user, who corrects the record once the upgrade has said what is wrong with it.
func (u *user) repairRecord(record record.Record) {
	if named := u.recordedRevisionBefore(); named.ID == madeUp && strings.Contains(record.Message, "to set the group's revision to workers:"+madeUp) {
		u.rules.tally.count("trust", recordPointed)
		*named = u.realPrevious
	}
	n, known := u.stored.record.Nodes[u.tamperedNode]
	if u.tamperedNode == "" || !known || !reportsChangedRecord(&record) {
		return
	}
	u.rules.tally.count("trust", recordAimed)
	n.Instance = u.rules.recordedMachine[u.tamperedNode]
	u.stored.record.Nodes = maps.Clone(u.stored.record.Nodes)
	u.stored.record.Nodes[u.tamperedNode] = n
}

func reportsChangedRecord(rec *record.Record) bool {
	return rec.Result == record.Failed && strings.Contains(rec.Message, "another process changed the record")
}

// checkOwnMachine checks S31: only the machine that belongs to the node is terminated.
func (r *rules) checkOwnMachine(a nodegroup.Terminate) {
	node := r.c.nodes[a.Node]
	if a.Instance == foreignMachine {
		r.fail("S31", "%s, which is none of the group's", a)
	}
	if node != nil && !strings.HasSuffix(node.Spec.ProviderID, "/"+a.Instance) {
		r.fail("S31", "%s for node %s, which is %s", a, a.Node, node.Spec.ProviderID)
	}
}

// checkRebuilds checks S30: if the record were lost now, it could be rebuilt from the annotations of all fenced nodes. A fenced node that
// says something else is contradicted. A node that is not fenced is ignored. No limit is extended.
func (r *rules) checkRebuilds(p *process, w *upgrade.World) {
	if p.turns%10 != 7 || !r.quiet || !r.c.plan.hasSize() || w.Record.Run == "" || w.Record.Sizes.Desired == 0 {
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
			r.fail("S30", "node %s is given until %s by its own mark", name, n.Deadline)
		}
		if !n.Deadline.IsZero() && n.Deadline.Before(worldStart()) {
			r.fail("S30", "node %s is taken for one in drain by a mark that the run did not write", name)
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

// writeSmallerBaseline writes on a node that its group had one node before the upgrade.
func writeSmallerBaseline(node *corev1.Node) {
	nodemark.SetGroupBaseline(node, `{"desired":1,"min":0,"max":1}`)
}

// rebuildWithLie returns the record that is rebuilt if one of the nodes lies.
func rebuildWithLie(w *upgrade.World, at int, lie func(*corev1.Node)) (record.Record, error) {
	lost := *w
	lost.Record, lost.Members = record.Record{}, slices.Clone(w.Members)
	m := nodegroup.Member{Instance: w.Members[at].Instance, Outdated: w.Members[at].Outdated, Pods: w.Members[at].Pods, Node: w.Members[at].Node.DeepCopy()}
	lie(m.Node)
	lost.Members[at] = m
	return upgrade.RebuildRecord(lost)
}

// checkContradiction checks that the record is not rebuilt if a fenced node contradicts the others.
func (r *rules) checkContradiction(w *upgrade.World, at int, lie func(*corev1.Node)) {
	if record, err := rebuildWithLie(w, at, lie); !errors.Is(err, upgrade.ErrBaselineLost) {
		r.fail("S30", "node %s contradicts the other fenced nodes, and the record is made again as run %q of %d nodes: %v", w.Members[at].Name(), record.Run, record.Sizes.Desired, err)
	}
}

// checkRebuiltRecord checks that a rebuilt record has the run and the size of the true one.
func (r *rules) checkRebuiltRecord(w *upgrade.World, record *record.Record, err error) {
	if err != nil || record.Run != w.Record.Run || record.Sizes.Desired != w.Record.Sizes.Desired {
		r.fail("S30", "a lost record is made again as run %q of %d nodes, and was run %q of %d: %v", record.Run, record.Sizes.Desired, w.Record.Run, w.Record.Sizes.Desired, err)
	}
}

// madeUp is a revision that does not exist.
const madeUp = "made-up"

// addRevisionChanges adds another actor to some worlds in which an abort points the group back. That actor may write the record, and writes a
// revision there that the group never had. Package plugin refuses a rollback to such a revision. It draws from its own generator.
func addRevisionChanges(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x706f696e))}
	if !p.Repoint || !p.hasActor(Aborts) || p.hasActor(RollsBack) || p.isDelegated() || p.isShortLived() || p.Denial.Kind != "" || !d.chance(60) {
		return
	}
	for range 4 {
		p.Actors = append(p.Actors, Actor{Kind: RecordPointed, At: d.between(time.Second, 15*time.Minute)})
	}
}

// changeRecordedRevision kills the process and writes another revision into the record as the one before the upgrade.
func (u *user) changeRecordedRevision(int) bool {
	named := u.recordedRevisionBefore()
	if u.process.dead || named.ID == "" || named.ID == madeUp {
		return false
	}
	u.process.crash()
	u.realPrevious, *named = *named, revisionOf(madeUp)
	return true
}

// recordedRevisionBefore returns the field in which the record has the revision before the upgrade.
func (u *user) recordedRevisionBefore() *nodegroup.Revision {
	if record := &u.stored.record; record.Pointed.ID != "" {
		return &record.Pointed
	}
	return &u.stored.record.Previous
}

// addScribbles adds, in some worlds, actors who overwrite the annotation that records what a node was like before with text that this
// program does not write. It draws from its own generator.
func addScribbles(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73637269))}
	if p.isDelegated() || p.isShortLived() || p.Denial.Kind != "" || !d.chance(8) {
		return
	}
	most := pick(d, 5*time.Minute, 15*time.Minute, time.Hour)
	for range 3 {
		p.Actors = append(p.Actors, Actor{Kind: Scribbles, At: d.between(time.Second, most), Pick: d.IntN(1000)})
	}
}

// unreadable is in the message of an upgrade about an annotation of this program that it did not write.
const unreadable = "cannot be read"

// overwriteBaseline overwrites the annotation on a node of the group, fenced or not. The record of what the node was like before is lost.
func (u *user) overwriteBaseline(pick int) bool {
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

// removeUnreadable acts as the user, who removes unreadable annotations. The command names them and does not begin before.
func (u *user) removeUnreadable() {
	for _, name := range u.c.nodeNames() {
		for found := nodemark.FindUnreadable(u.c.nodes[name]); found != nil; found = nodemark.FindUnreadable(u.c.nodes[name]) {
			u.rules.tally.count("trust", scribbled)
			u.c.changeNode(name, func(n *corev1.Node) { delete(n.Annotations, found.Annotation) })
		}
	}
}

// What the tally counts about things that cannot be trusted, and things that must not be touched.
const (
	onStandby     = "an instance is on Standby"
	recordAimed   = "a record is aimed at another machine"
	recordPointed = "a record points at another revision"
	recordLost    = "a record would be lost"
	scribbled     = "an annotation cannot be read"
	stray         = "a node has stray annotations"
)

func allTrust() []string {
	return []string{onStandby, recordAimed, recordPointed, recordLost, scribbled, stray}
}
