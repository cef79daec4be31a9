// Package e2e holds the tests of the whole: the built plugin behind the real kubectl, on a real control
// plane, against the cloud stand-in. What they look at is what a user and a rival would see:
// streams, exit codes and files of the command; the audit log; what the cloud was asked for.
//
// Scenes share a stage where they cannot see each other: each has its own group, namespace and
// workloads, and takes place at the same time as the others, for an upgrade waits more than it computes.
// Scenes that need the cloud to misbehave, or nothing to be written at all, have a stage of their own.
package e2e
