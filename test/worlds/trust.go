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

// standby has the owner of some groups of AWS take an outdated instance out of service before the upgrade, whose node is silent since. It
// draws from its own generator.
func standby(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x7374616e))}
	if p.Provider != "aws" || p.Request.Strategy != record.Surge || p.outdated() <= max(1, p.Request.Surge) || !d.chance(15) {
		return
	}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; !n.Current && n.Marks == 0 {
			n.Standby, n.Marks = true, MarkSilent
			return
		}
	}
}

func (p *Plan) onStandby() (n int) {
	for _, node := range p.Nodes {
		if node.Standby {
			n++
		}
	}
	return n
}

// leftAlone is the rule that instances on Standby are left alone, and that an upgrade which reached its goal says so.
func (r *rules) leftAlone(rec record.Record) {
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
		case rec.Result == record.Succeeded && !strings.Contains(rec.Message, "on Standby and left alone: i-"+name):
			r.fail("standby", "it does not say that i-%s was left alone: %q", name, rec.Message)
		}
		r.tally.met("trust", onStandby)
	}
}

// strayMarks gives outdated nodes of some groups annotations of ours that no run of the world wrote. It draws from its own generator.
func strayMarks(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73747279))}
	if p.delegated() || p.shortLived() || !d.chance(12) {
		return
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		n.Stray = !n.Current && n.Marks&MarkNoNode == 0 && d.chance(50)
	}
}

// markStray writes on a node what no run of the world wrote there.
func markStray(node *corev1.Node) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, nodemark.AnnotationDeadline, nodemark.FormatTime(node.CreationTimestamp.Time))
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, nodemark.AnnotationOwner, `{"namespace":"ops","group":"other","epoch":7}`)
	nodemark.SetEpoch(node, 7)
	tellSmaller(node)
}

// isStray reports whether the node had annotations of ours before the world's first run.
func (r *rules) isStray(name string) bool {
	for i, n := range r.c.plan.Nodes {
		if n.Stray && nodeName(n, i) == name {
			r.tally.met("trust", stray)
			return true
		}
	}
	return false
}

// withoutOurs is the node without annotations of ours.
func withoutOurs(node *corev1.Node) *corev1.Node {
	bare := node.DeepCopy()
	maps.DeleteFunc(bare.Annotations, func(key, _ string) bool { return strings.HasPrefix(key, nodemark.Domain+"/") })
	if len(bare.Annotations) == 0 {
		bare.Annotations = nil
	}
	return bare
}

// aimRecord has another actor who may write the record aim it at another machine, in some worlds. It draws from its own generator.
func aimRecord(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x61696d65))}
	if !p.listed() || p.delegated() || p.shortLived() || p.pins() || p.Denial.Kind != "" || !d.chance(12) {
		return
	}
	most := pick(d, 5*time.Minute, 15*time.Minute, time.Hour)
	for range 6 {
		p.Actors = append(p.Actors, Actor{Kind: RecordAimed, At: d.between(time.Second, most), Pick: d.IntN(1000)})
	}
}

// aim has the process die, and the record name another machine for a node that was started: one of the group, or one that is none of its.
func (u *user) aim(pick int) bool {
	if u.aimed != "" || u.process.dead {
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
	u.aimed = started[pick%len(started)]
	target := foreignMachine
	if others := u.c.cloud.living(); pick%2 == 0 && len(others) > 0 {
		target = others[pick%len(others)].id
	}
	n := u.stored.record.Nodes[u.aimed]
	if n.Instance == target {
		target = foreignMachine
	}
	u.process.die()
	u.rules.aimed[u.aimed] = n.Instance
	n.Instance = target
	u.stored.record.Nodes = maps.Clone(u.stored.record.Nodes)
	u.stored.record.Nodes[u.aimed] = n
	u.rules.say("the record names %s for node %s", target, u.aimed)
	return true
}

// foreignMachine is a machine that is none of the group's.
const foreignMachine = "i-elsewhere-outside"

// repair is the person who puts the record right, once the upgrade has said what is wrong with it.
func (u *user) repair(record record.Record) {
	if named := u.namedBefore(); named.ID == madeUp && strings.Contains(record.Message, "to set the group's revision to workers:"+madeUp) {
		u.rules.tally.met("trust", recordPointed)
		*named = u.before
	}
	n, known := u.stored.record.Nodes[u.aimed]
	if u.aimed == "" || !known || !saysAimed(&record) {
		return
	}
	u.rules.tally.met("trust", recordAimed)
	n.Instance = u.rules.aimed[u.aimed]
	u.stored.record.Nodes = maps.Clone(u.stored.record.Nodes)
	u.stored.record.Nodes[u.aimed] = n
}

func saysAimed(rec *record.Record) bool {
	return rec.Result == record.Failed && strings.Contains(rec.Message, "another actor has changed the record")
}

// own is S31: no machine is terminated but the one that the node has.
func (r *rules) own(a nodegroup.Terminate) {
	node := r.c.nodes[a.Node]
	if a.Instance == foreignMachine {
		r.fail("S31", "%s, which is none of the group's", a)
	}
	if node != nil && !strings.HasSuffix(node.Spec.ProviderID, "/"+a.Instance) {
		r.fail("S31", "%s for node %s, which is %s", a, a.Node, node.Spec.ProviderID)
	}
}

// rebuilds is S30: were the record lost now, it would be made again from what all fenced nodes say. One of them that says something else
// is contradicted, one that is not fenced is not heard, and no limit is extended.
func (r *rules) rebuilds(p *process, w *upgrade.World) {
	if p.turns%10 != 7 || !r.quiet || !r.c.plan.sized() || w.Record.Run == "" || w.Record.Sizes.Desired == 0 {
		return
	}
	fenced, others := splitFenced(w)
	if len(fenced) < 2 {
		return
	}
	r.tally.met("trust", recordLost)
	if w.Record.Sizes.Desired > 1 {
		r.contradicted(w, fenced[0], tellSmaller)
	}
	r.contradicted(w, fenced[1], func(n *corev1.Node) { n.Annotations[nodemark.AnnotationRun] = "evil" })
	record, err := rebuiltWith(w, fenced[0], func(n *corev1.Node) {
		n.Annotations[nodemark.AnnotationDeadline] = nodemark.FormatTime(w.Now.Add(1000 * time.Hour))
	})
	r.rebuilt(w, &record, err)
	for _, name := range sortedKeys(record.Nodes) {
		n := record.Nodes[name]
		if n.Deadline.After(w.Now.Add(w.Request.DrainTimeout.Duration)) {
			r.fail("S30", "node %s is given until %s by its own mark", name, n.Deadline)
		}
		if !n.Deadline.IsZero() && n.Deadline.Before(start()) {
			r.fail("S30", "node %s is taken for one in drain by a mark that the run did not write", name)
		}
	}
	if len(others) > 0 {
		record, err := rebuiltWith(w, others[0], func(n *corev1.Node) {
			nodemark.SetHold(n, "evil")
			tellSmaller(n)
		})
		r.rebuilt(w, &record, err)
	}
}

// splitFenced lists the places of the members whose nodes the run has fenced, and of those whose nodes it has not.
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

// tellSmaller has a node say that its group had one node before the upgrade.
func tellSmaller(node *corev1.Node) {
	nodemark.SetGroupBaseline(node, `{"desired":1,"min":0,"max":1}`)
}

// rebuiltWith is the record as it is made again when one of the nodes lies.
func rebuiltWith(w *upgrade.World, at int, lie func(*corev1.Node)) (record.Record, error) {
	lost := *w
	lost.Record, lost.Members = record.Record{}, slices.Clone(w.Members)
	m := nodegroup.Member{Instance: w.Members[at].Instance, Outdated: w.Members[at].Outdated, Pods: w.Members[at].Pods, Node: w.Members[at].Node.DeepCopy()}
	lie(m.Node)
	lost.Members[at] = m
	return upgrade.RebuildRecord(lost)
}

// contradicted holds a lost record to being refused when a fenced node says something else than the others.
func (r *rules) contradicted(w *upgrade.World, at int, lie func(*corev1.Node)) {
	if record, err := rebuiltWith(w, at, lie); !errors.Is(err, upgrade.ErrLost) {
		r.fail("S30", "node %s contradicts the other fenced nodes, and the record is made again as run %q of %d nodes: %v", w.Members[at].Name(), record.Run, record.Sizes.Desired, err)
	}
}

// rebuilt holds a record that was made again to the run and the size that the true one has.
func (r *rules) rebuilt(w *upgrade.World, record *record.Record, err error) {
	if err != nil || record.Run != w.Record.Run || record.Sizes.Desired != w.Record.Sizes.Desired {
		r.fail("S30", "a lost record is made again as run %q of %d nodes, and was run %q of %d: %v", record.Run, record.Sizes.Desired, w.Record.Run, w.Record.Sizes.Desired, err)
	}
}

// madeUp is a revision that was never made.
const madeUp = "made-up"

// pointRecord has another actor who may write the record name a revision there that the group never had, in some worlds in which an abort
// points the group back. A rollback is not begun to such a revision: package plugin refuses it. It draws from its own generator.
func pointRecord(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x706f696e))}
	if !p.Repoint || !p.hasActor(Aborts) || p.hasActor(RollsBack) || p.delegated() || p.shortLived() || p.Denial.Kind != "" || !d.chance(60) {
		return
	}
	for range 4 {
		p.Actors = append(p.Actors, Actor{Kind: RecordPointed, At: d.between(time.Second, 15*time.Minute)})
	}
}

// pointRecord has the process die, and the record name another revision as the one before the upgrade.
func (u *user) pointRecord(int) bool {
	named := u.namedBefore()
	if u.process.dead || named.ID == "" || named.ID == madeUp {
		return false
	}
	u.process.die()
	u.before, *named = *named, revision(madeUp)
	return true
}

// namedBefore is where the record names the revision before the upgrade.
func (u *user) namedBefore() *nodegroup.Revision {
	if record := &u.stored.record; record.Pointed.ID != "" {
		return &record.Pointed
	}
	return &u.stored.record.Previous
}

// scribbles has others write what this program does not write over the annotation that says what nodes were like before, in some worlds. It
// draws from its own generator.
func scribbles(p *Plan) {
	d := dice{rand.New(rand.NewPCG(p.Seed, 0x73637269))}
	if p.delegated() || p.shortLived() || p.Denial.Kind != "" || !d.chance(8) {
		return
	}
	most := pick(d, 5*time.Minute, 15*time.Minute, time.Hour)
	for range 3 {
		p.Actors = append(p.Actors, Actor{Kind: Scribbles, At: d.between(time.Second, most), Pick: d.IntN(1000)})
	}
}

// unreadable is what an upgrade says of an annotation of ours that it did not write.
const unreadable = "cannot be read"

// scribble spoils the annotation on a node of the group, fenced or not. With it goes what the node was like before.
func (u *user) scribble(pick int) bool {
	name := u.one(pick, func(n *corev1.Node) bool { return n.Labels[groupLabel] != "" })
	if name == "" {
		return false
	}
	u.rules.stripped[name] = true
	u.c.changeNode(name, func(n *corev1.Node) {
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, nodemark.AnnotationNodeBaseline, "{")
	})
	return true
}

// wipe is the person who takes annotations away that cannot be read, for the command names them and does not begin before.
func (u *user) wipe() {
	for _, name := range u.c.nodeNames() {
		for found := nodemark.FindUnreadable(u.c.nodes[name]); found != nil; found = nodemark.FindUnreadable(u.c.nodes[name]) {
			u.rules.tally.met("trust", scribbled)
			u.c.changeNode(name, func(n *corev1.Node) { delete(n.Annotations, found.Annotation) })
		}
	}
}

// The words for what is not to be trusted, and for what is to be left alone.
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
