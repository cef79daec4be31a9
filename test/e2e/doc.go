// Package e2e holds the tests of the whole: the built plugin behind the real kubectl, on a real control
// plane, against the cloud stand-in. What they look at is what a user and a rival would see:
// streams, exit codes and files of the command; the audit log; what the cloud was asked for.
//
// Cases share a fixture where they cannot see each other: each has its own group, namespace and
// workloads, and takes place at the same time as the others, for an upgrade waits more than it computes.
// A case has its own fixture if it makes the cloud fail, or checks that nothing is written.
package e2e
