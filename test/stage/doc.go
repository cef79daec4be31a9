// Package stage sets a whole upgrade up for tests and demos: a real control plane, the cloud
// stand-in with an Auto Scaling group, workloads under budgets, and the plugin as a user has it,
// behind a real kubectl. It also keeps the evidence: the audit log and what budgets showed meanwhile.
package stage
