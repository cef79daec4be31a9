package nodemark

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/pkg/shell"
)

// UnreadableError is an annotation of ours with an invalid value. Other processes can write annotations, too.
type UnreadableError struct {
	Node, Annotation string
	Err              error
}

// Error names the annotation, and the command that removes it.
func (e *UnreadableError) Error() string {
	remedy := "run " + e.Remedy()
	if e.Annotation == AnnotationNodeBaseline {
		remedy += " if the node's taints and cordon may be undone"
	}
	return fmt.Sprintf("annotation %s of node %q cannot be read (%v): %s", e.Annotation, e.Node, e.Err, remedy)
}

// Remedy returns the command that removes the annotation. Without it the node counts as having had nothing before.
func (e *UnreadableError) Remedy() string {
	return shell.Command("kubectl annotate node", e.Node, e.Annotation+"-")
}

// FindUnreadable returns the first annotation of ours on the node that cannot be read, or nil.
func FindUnreadable(node *corev1.Node) *UnreadableError {
	readers := []struct {
		annotation string
		read       func(text string) error
	}{
		{AnnotationNodeBaseline, func(text string) error { _, err := parseNodeBaseline(text); return err }},
		{AnnotationOwner, func(text string) error { _, err := parseOwner(text); return err }},
		{AnnotationGroupBaseline, func(text string) error { _, err := parseGroupBaseline(text); return err }},
		{AnnotationDeadline, func(text string) error { _, err := time.Parse(time.RFC3339, text); return err }},
	}
	for _, r := range readers {
		text, ok := node.Annotations[r.annotation]
		if !ok {
			continue
		}
		if err := r.read(text); err != nil {
			return &UnreadableError{Node: node.Name, Annotation: r.annotation, Err: err}
		}
	}
	return nil
}

func parseNodeBaseline(text string) (NodeBaseline, error) {
	var prev NodeBaseline
	if err := json.Unmarshal([]byte(text), &prev); err != nil {
		return NodeBaseline{}, err
	}
	if prev.Excluded == nil {
		return prev, nil
	}
	if faults := validation.IsValidLabelValue(*prev.Excluded); len(faults) > 0 {
		return NodeBaseline{}, errors.New(strings.Join(faults, "; "))
	}
	return prev, nil
}

func parseOwner(text string) (Owner, error) {
	var owner Owner
	err := json.Unmarshal([]byte(text), &owner)
	if err == nil && (owner.Group == "" || owner.Namespace == "") {
		err = errors.New("it lacks the group or the namespace")
	}
	return owner, err
}

func parseGroupBaseline(text string) (GroupBaseline, error) {
	var b GroupBaseline
	err := json.Unmarshal([]byte(text), &b)
	if err == nil && b.Desired <= 0 {
		err = errors.New("it has no size")
	}
	return b, err
}
