// Package karpenter has the tests beside Karpenter: this tool's reading of Karpenter's rules against the rules themselves, and what it
// says of a roll-out against what Karpenter's own controller then does.
package karpenter
