// Package nodepool has Karpenter's NodePools and NodeClaims as values, and Karpenter's rules about when it replaces which of
// their nodes. It is pure: package cloud/karpenter reads the objects.
//
// Karpenter replaces a node that has drifted: the node's NodeClaim no longer equals what its NodePool or NodeClass asks for.
// The rules are those of Karpenter 1.14 (sigs.k8s.io/karpenter); each comment names the file.
package nodepool
