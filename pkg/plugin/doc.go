// Package plugin is the command line: a file for each command. Flags are parsed once into a
// commandLine, which is not written again. With a connection it is a command, and with the cluster
// as it was read and the provider of its nodes a session. A session loads groups, each a
// groupContext that is planned from and that an execution carries out. What is done with an upgrade
// that is recorded is the mode, an argument. Answers go to stdout, everything else to stderr.
package plugin
