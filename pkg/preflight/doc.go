// Package preflight says before anything is touched whether an upgrade will finish and
// whether users will notice. Its rules are pure functions over the World that the
// upgrade would start from; docs/rules.md defines their ids.
package preflight
