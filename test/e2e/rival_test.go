package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/stage"
)

// renewal is how often a lease is renewed: how long the second of two may take to see that the first is alive.
const renewal = 10 * time.Second

// twoRuns has a group upgraded twice at once, and then taken over.
func twoRuns(t *testing.T, shared *stage.Stage) {
	s := open(t, shared, stage.Group{Name: "contested", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, stubborn())
	first := s.start()
	blockedBy("stubborn")(s, first)

	holder := s.status().Holder
	if holder == "" {
		t.Fatal("the status does not say who holds the lease")
	}
	asked := time.Now()
	second := s.upgrade(5)
	if took := time.Since(asked); took > renewal+slack {
		t.Errorf("the second run took %s to give way, want at most %s", took, renewal)
	}
	for _, part := range []string{holder + " ", " since ", "kubectl nodeupgrade status contested", "--takeover"} {
		if complaint := second.complaint(); !strings.Contains(complaint, part) {
			t.Errorf("the error does not say %q: %s", part, complaint)
		}
	}

	third := s.start("--takeover")
	first.end(5)
	if complaint := first.complaint(); !strings.Contains(complaint, "lost") {
		t.Errorf("the error does not say that the lease was lost: %s", complaint)
	}
	s.unblock("stubborn")
	third.end(0)
	s.checkDone()
}

// twoGroups has another group upgraded at the same time, which has to be asked for.
func twoGroups(t *testing.T, shared *stage.Stage) {
	busy := open(t, shared, stage.Group{Name: "busy", Zones: []string{zoneA}, Counts: []int{1}}, stubborn())
	other := open(t, shared, stage.Group{Name: "other", Zones: []string{zoneA}, Counts: []int{1}})
	first := busy.start()
	blockedBy("stubborn")(busy, first)

	second := start(t, other.Stage, "nodeupgrade", "other", "--yes")
	second.end(2)
	if complaint := second.complaint(); !strings.Contains(complaint, "--parallel-groups") {
		t.Errorf("the error does not say how to go on: %s", complaint)
	}
	if sizes := other.Cloud.Timeline("other"); len(sizes) != 1 {
		t.Errorf("the other group was changed: %v", sizes)
	}
	busy.unblock("stubborn")
	first.end(0)
	busy.checkDone()
}

// lowersMax has somebody lower the group's maximum while a node is drained: the upgrade stops, and what was set stays so.
func lowersMax(t *testing.T, shared *stage.Stage) {
	s := open(t, shared, stage.Group{Name: "lowered", Zones: []string{zoneA, zoneB}, Counts: []int{1, 1}}, stubborn())
	c := s.start()
	blockedBy("stubborn")(s, c)
	before := s.cloudGroup()
	s.setMax(before.Max - 1)
	c.end(5)
	for _, part := range []string{"max was lowered from 4 to 3 by somebody", "run the same command to go on", "kubectl nodeupgrade abort lowered"} {
		if complaint := c.complaint(); !strings.Contains(complaint, part) {
			t.Errorf("the error does not say %q: %s", part, complaint)
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

// setMax sets the maximum as a person does.
func (s *scene) setMax(n int) {
	s.t.Helper()
	client := autoscaling.New(autoscaling.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Cloud.URL()), Credentials: credentials.NewStaticCredentialsProvider("AKIDPERSON", "secret", ""),
	})
	_, err := client.UpdateAutoScalingGroup(s.t.Context(), &autoscaling.UpdateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(s.group), MaxSize: aws.Int32(int32(n)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
