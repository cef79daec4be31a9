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

// testTakeover starts a second upgrade of the same group, which is refused. A third one takes the group over.
func testTakeover(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "contested", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, stubbornWorkload())
	first := s.start()
	awaitDrainBlockedBy("stubborn")(s, first)

	holder := s.status().Holder
	if holder == "" {
		t.Fatal("the status does not name the holder of the lease")
	}
	second := s.runUpgrade(5)
	for _, part := range []string{holder + " ", " since ", "kubectl nodeupgrade status contested", "--takeover"} {
		if errorLine := second.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}

	third := s.start("--takeover")
	first.awaitExit(5)
	if errorLine := first.errorLine(); !strings.Contains(errorLine, "lost") {
		t.Errorf("the error does not say that the lease was lost: %s", errorLine)
	}
	awaitDrainBlockedBy("stubborn")(s, third)
	if !slices.ContainsFunc(s.nodes(), func(n corev1.Node) bool { return n.Annotations[nodemark.AnnotationEpoch] != "" }) {
		t.Error("the node in flight was not taken over")
	}
	s.deleteBudget("stubborn")
	third.awaitExit(0)
	s.checkUpgraded()
}

// startWhileLeaseIsHeld starts the upgrade while another process holds the lease. It returns when the upgrade waits for the lease.
func (s *testCase) startWhileLeaseIsHeld() *command {
	s.t.Helper()
	s.changeLease(func(lease *coordinationv1.Lease) {
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = aws.String("ann@elsewhere/7"), aws.Int32(60)
		lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
	})
	c := s.start()
	c.awaitEvent("the wait for the lease", func(e event) bool { return strings.Contains(e.Text, "ann@elsewhere/7 holds the lease") })
	return c
}

// testExitIfLeaseIsRenewed checks that the waiting upgrade exits when the holder renews the lease: then the holder is alive.
func testExitIfLeaseIsRenewed(t *testing.T, shared *fixture.Fixture) {
	s := openEmptyCase(t, shared, fixture.Group{Name: "renewed", Zones: []string{zoneA}, Counts: []int{1}, Suspended: []string{rebalance}})
	s.startObserving()
	c := s.startWhileLeaseIsHeld()
	s.changeLease(func(lease *coordinationv1.Lease) {
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
	})
	c.awaitExit(5)
	s.checkUnchanged()
}

// testGroupIsCurrentOnceLeaseIsFree makes the group current while the upgrade waits for the lease. After the wait, the upgrade must
// read the group again, report that it is current, and change nothing.
func testGroupIsCurrentOnceLeaseIsFree(t *testing.T, shared *fixture.Fixture) {
	var template string
	s := openEmptyCase(t, shared, fixture.Group{
		Name: "tardy", Zones: []string{zoneA}, Counts: []int{2}, Version: "$Default", Suspended: []string{rebalance},
		More: func(spec *awscloud.GroupSpec) { template = spec.Template.ID },
	})
	const newer, older = 2, 1
	if err := s.Cloud.SetDefaultVersion(template, newer); err != nil {
		t.Fatal(err)
	}
	s.addDefaultWorkloads()
	s.startObserving()
	c := s.startWhileLeaseIsHeld()
	if err := s.Cloud.SetDefaultVersion(template, older); err != nil { // all nodes have this version
		t.Fatal(err)
	}
	s.changeLease(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = nil })
	c.awaitExit(0)
	c.checkOutput("is current")
	s.checkUnchanged()
}

// testTwoGroupsTogether checks that upgrades of two groups at the same time need --parallel-groups.
func testTwoGroupsTogether(t *testing.T, shared *fixture.Fixture) {
	busy := openCase(t, shared, fixture.Group{Name: "busy", Zones: []string{zoneA}, Counts: []int{1}}, stubbornWorkload())
	other := openCase(t, shared, fixture.Group{Name: "other", Zones: []string{zoneA}, Counts: []int{1}})
	first := busy.start()
	awaitDrainBlockedBy("stubborn")(busy, first)

	second := startKubectl(t, other.Fixture, "nodeupgrade", "other", "--yes")
	second.awaitExit(5)
	if errorLine := second.errorLine(); !strings.Contains(errorLine, "--parallel-groups") {
		t.Errorf("the error does not say how to continue: %s", errorLine)
	}
	if sizes := other.Cloud.Timeline("other"); len(sizes) != 1 {
		t.Errorf("the other group was changed: %v", sizes)
	}
	busy.deleteBudget("stubborn")
	first.awaitExit(0)
	busy.checkUpgraded()
}

// testUserLowersMax lowers the group's maximum during a drain, as another user. The upgrade must stop and keep the lower maximum.
func testUserLowersMax(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "lowered", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, stubbornWorkload())
	c := s.start()
	awaitDrainBlockedBy("stubborn")(s, c)
	before := s.cloudGroup()
	s.setMaxAsOtherUser(before.Max - 1)
	c.awaitExit(5)
	for _, part := range []string{"lowered the group's max from 4 to 3", "run kubectl nodeupgrade resume lowered to continue", "kubectl nodeupgrade abort lowered"} {
		if errorLine := c.errorLine(); !strings.Contains(errorLine, part) {
			t.Errorf("the error does not say %q: %s", part, errorLine)
		}
	}
	if now := s.cloudGroup(); now.Max != before.Max-1 || now.Desired != before.Desired {
		t.Errorf("max %d and desired %d, want %d and %d", now.Max, now.Desired, before.Max-1, before.Desired)
	}
	s.deleteBudget("stubborn")
	s.runUpgrade(0)
	s.before.group.Max = before.Max - 1
	s.checkUpgraded()
}

// testUserProtectsInstances protects the outdated instances against scale-in during a drain, as another user. The upgrade must not
// terminate them until the protection is removed.
func testUserProtectsInstances(t *testing.T, shared *fixture.Fixture) {
	s := openCase(t, shared, fixture.Group{Name: "protected", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, stubbornWorkload())
	c := s.start()
	awaitDrainBlockedBy("stubborn")(s, c)
	var old []string
	for _, i := range s.cloudGroup().Instances {
		was := func(b awscloud.InstanceStatus) bool { return b.ID == i.ID }
		if i.State == at.LifecycleStateInService && slices.ContainsFunc(s.before.group.Instances, was) {
			old = append(old, i.ID)
		}
	}
	s.setProtectionAsOtherUser(old, true)
	c.awaitExit(5)
	if errorLine := c.errorLine(); !strings.Contains(errorLine, "a user or another process protected instance") {
		t.Errorf("the error does not name the protected instance: %s", errorLine)
	}
	s.deleteBudget("stubborn")
	s.runUpgrade(1)
	for _, id := range old {
		if !slices.ContainsFunc(s.cloudGroup().Instances, func(i awscloud.InstanceStatus) bool { return i.ID == id }) {
			t.Errorf("instance %s was terminated", id)
		}
	}
	s.setProtectionAsOtherUser(old, false)
	s.runUpgrade(0)
	s.checkUpgraded()
}

// otherUser returns another user's AWS client.
func (s *testCase) otherUser() *autoscaling.Client {
	return autoscaling.New(autoscaling.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Cloud.URL()), Credentials: credentials.NewStaticCredentialsProvider("AKIDPERSON", "secret", ""),
	})
}

func (s *testCase) setProtectionAsOtherUser(instances []string, protected bool) {
	s.t.Helper()
	_, err := s.otherUser().SetInstanceProtection(s.t.Context(), &autoscaling.SetInstanceProtectionInput{
		AutoScalingGroupName: aws.String(s.group), InstanceIds: instances, ProtectedFromScaleIn: aws.Bool(protected),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// setMaxAsOtherUser sets the maximum as another user.
func (s *testCase) setMaxAsOtherUser(n int) {
	s.t.Helper()
	_, err := s.otherUser().UpdateAutoScalingGroup(s.t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(s.group), MaxSize: aws.Int32(int32(n)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// changeLease changes the lease of the case's group, as another holder would. If the lease does not exist, it is created.
func (s *testCase) changeLease(change func(*coordinationv1.Lease)) {
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
