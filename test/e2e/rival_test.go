package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	at "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/cluster"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/nodemark"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/awscloud"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// twoRuns starts a second upgrade of the same group, and then takes the group over.
func twoRuns(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "contested", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, stubborn())
	first := s.start()
	blockedBy("stubborn")(s, first)

	holder := s.status().Holder
	if holder == "" {
		t.Fatal("the status does not say who holds the lease")
	}
	second := s.upgrade(5)
	for _, part := range []string{holder + " ", " since ", "kubectl nodeupgrade status contested", "--takeover"} {
		if errorLine := second.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}

	third := s.start("--takeover")
	first.end(5)
	if errorLine := first.errorLine(); !strings.Contains(errorLine, "lost") {
		t.Errorf("the error does not say that the lease was lost: %s", errorLine)
	}
	blockedBy("stubborn")(s, third)
	if !slices.ContainsFunc(s.nodes(), func(n corev1.Node) bool { return n.Annotations[nodemark.AnnotationEpoch] != "" }) {
		t.Error("the node in flight was not taken over")
	}
	s.unblock("stubborn")
	third.end(0)
	s.checkDone()
}

// startBehindAnn starts the upgrade while another holder has the lease, and returns when the upgrade waits for a renewal.
func (s *testCase) startBehindAnn() *command {
	s.t.Helper()
	s.lease(func(lease *coordinationv1.Lease) {
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = aws.String("ann@elsewhere/7"), aws.Int32(60)
		lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	})
	c := s.start()
	c.until("the wait for the lease", func(e event) bool { return strings.Contains(e.Text, "ann@elsewhere/7 holds the lease") })
	return c
}

// secondGivesWay renews the lease once as its holder. The renewal proves that the holder is alive.
func secondGivesWay(t *testing.T, shared *fixture.Fixture) {
	s := openEmpty(t, shared, fixture.Group{Name: "renewed", Zones: []string{zoneA}, Counts: []int{1}, Suspended: []string{rebalance}})
	s.ready()
	c := s.startBehindAnn()
	s.lease(func(lease *coordinationv1.Lease) {
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
	})
	c.end(5)
	s.checkUntouched()
}

// lateSecond waits for the lease while the group becomes current. Then it reads everything again, starts no upgrade and says so.
func lateSecond(t *testing.T, shared *fixture.Fixture) {
	var template string
	s := openEmpty(t, shared, fixture.Group{
		Name: "tardy", Zones: []string{zoneA}, Counts: []int{2}, Version: "$Default", Suspended: []string{rebalance},
		More: func(spec *awscloud.GroupSpec) { template = spec.Template.ID },
	})
	const newer, older = 2, 1
	if err := s.Cloud.SetDefaultVersion(template, newer); err != nil {
		t.Fatal(err)
	}
	s.addWorkloads()
	s.ready()
	c := s.startBehindAnn()
	if err := s.Cloud.SetDefaultVersion(template, older); err != nil { // all nodes have this version
		t.Fatal(err)
	}
	s.lease(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = nil })
	c.end(0)
	c.says("is current")
	s.checkUntouched()
}

// twoGroups upgrades two groups at the same time. This needs a flag.
func twoGroups(t *testing.T, shared *fixture.Fixture) {
	busy := open(t, shared, fixture.Group{Name: "busy", Zones: []string{zoneA}, Counts: []int{1}}, stubborn())
	other := open(t, shared, fixture.Group{Name: "other", Zones: []string{zoneA}, Counts: []int{1}})
	first := busy.start()
	blockedBy("stubborn")(busy, first)

	second := start(t, other.Fixture, "nodeupgrade", "other", "--yes")
	second.end(5)
	if errorLine := second.errorLine(); !strings.Contains(errorLine, "--parallel-groups") {
		t.Errorf("the error does not say how to go on: %s", errorLine)
	}
	if sizes := other.Cloud.Timeline("other"); len(sizes) != 1 {
		t.Errorf("the other group was changed: %v", sizes)
	}
	busy.unblock("stubborn")
	first.end(0)
	busy.checkDone()
}

// lowersMax lowers the group's maximum as another user during a drain. The upgrade stops, and the lower maximum stays.
func lowersMax(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "lowered", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, stubborn())
	c := s.start()
	blockedBy("stubborn")(s, c)
	before := s.cloudGroup()
	s.setMax(before.Max - 1)
	c.end(5)
	for _, part := range []string{"lowered the group's max from 4 to 3", "run kubectl nodeupgrade resume lowered to continue", "kubectl nodeupgrade abort lowered"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	if now := s.cloudGroup(); now.Max != before.Max-1 || now.Desired != before.Desired {
		t.Errorf("max %d and desired %d, want them left at %d and %d", now.Max, now.Desired, before.Max-1, before.Desired)
	}
	s.unblock("stubborn")
	s.upgrade(0)
	s.before.group.Max = before.Max - 1
	s.checkDone()
}

// protects protects a drained node against scale-in as another user. The node is not terminated until the protection is removed.
func protects(t *testing.T, shared *fixture.Fixture) {
	s := open(t, shared, fixture.Group{Name: "protected", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, stubborn())
	c := s.start()
	blockedBy("stubborn")(s, c)
	var old []string
	for _, i := range s.cloudGroup().Instances {
		was := func(b awscloud.InstanceStatus) bool { return b.ID == i.ID }
		if i.State == at.LifecycleStateInService && slices.ContainsFunc(s.before.group.Instances, was) {
			old = append(old, i.ID)
		}
	}
	s.protect(old, true)
	c.end(5)
	if errorLine := c.errorLine(); !strings.Contains(errorLine, "a user or another process protected instance") {
		t.Errorf("the error does not name the protected instance: %s", errorLine)
	}
	s.unblock("stubborn")
	s.upgrade(1)
	for _, id := range old {
		if !slices.ContainsFunc(s.cloudGroup().Instances, func(i awscloud.InstanceStatus) bool { return i.ID == id }) {
			t.Errorf("instance %s was terminated", id)
		}
	}
	s.protect(old, false)
	s.upgrade(0)
	s.checkDone()
}

// person returns the AWS client of another user.
func (s *testCase) person() *autoscaling.Client {
	return autoscaling.New(autoscaling.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Cloud.URL()), Credentials: credentials.NewStaticCredentialsProvider("AKIDPERSON", "secret", ""),
	})
}

func (s *testCase) protect(instances []string, protected bool) {
	s.t.Helper()
	_, err := s.person().SetInstanceProtection(s.t.Context(), &autoscaling.SetInstanceProtectionInput{
		AutoScalingGroupName: aws.String(s.group), InstanceIds: instances, ProtectedFromScaleIn: aws.Bool(protected),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// setMax sets the maximum as another user.
func (s *testCase) setMax(n int) {
	s.t.Helper()
	_, err := s.person().UpdateAutoScalingGroup(s.t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(s.group), MaxSize: aws.Int32(int32(n)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// lease changes the lease of the case's group as another holder. If the lease does not exist, it is created.
func (s *testCase) lease(change func(*coordinationv1.Lease)) {
	s.t.Helper()
	leases := s.Cluster.Client().CoordinationV1().Leases(metav1.NamespaceSystem)
	lease, err := leases.Get(s.t.Context(), cluster.ObjectName(s.group), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = leases.Create(s.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: cluster.ObjectName(s.group)}}, metav1.CreateOptions{})
	}
	if err == nil {
		change(lease)
		_, err = leases.Update(s.t.Context(), lease, metav1.UpdateOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
