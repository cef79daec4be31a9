// Package preflight checks, before an upgrade changes anything, whether it will finish and whether
// users will notice. Its rules are pure functions over the World that the upgrade would start from.
// docs/internals/rules.md defines their IDs.
package preflight
