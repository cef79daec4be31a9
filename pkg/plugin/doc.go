// Package plugin is the command line, with about one file for each command. The values of one invocation build on each
// other:
//
//   - commandLine: the parsed flags, which do not change afterwards.
//   - command: a commandLine with a connection to the cluster.
//   - session: a command with the nodes that were read and their provider.
//   - groupContext: one group of a session, which is planned or upgraded.
//   - execution: the upgrade of a groupContext.
//
// A mode says whether a command begins, continues or undoes the recorded upgrade, or only shows it. Results go to
// stdout, everything else to stderr.
package plugin
