// Package e2e contains the end-to-end tests: the built plugin behind the real kubectl, on a real control plane, against the cloud
// stand-in. They check only what a user or another process can see: streams, exit codes and files of the command, the audit log,
// and the requests to the cloud.
//
// Cases share a fixture if they cannot affect each other. Each has its own group, namespace and workloads. They run in parallel,
// because an upgrade mostly waits. A case has its own fixture if it makes the cloud fail, or checks that nothing is written.
package e2e
