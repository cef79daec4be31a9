package nodegroup

import "time"

// Maintenance is when a cloud upgrades a group without a user's request.
type Maintenance struct {
	// Automatic is true if the cloud upgrades the group by itself. It is nil if that is not known.
	Automatic *bool `json:"automatic,omitempty"`
	// Next is about when the next such upgrade begins; it is left out if none is announced.
	Next time.Time `json:"next,omitzero"`
	// Windows lists the times at which such upgrades may begin: "daily from 03:00 UTC for 4h". If it is empty, they may begin at any time.
	Windows []string `json:"windows,omitempty"`
	// Exclusions lists the times without such upgrades that are not over: "no upgrades from 2026-12-20T00:00:00Z to 2027-01-02T00:00:00Z (freeze)".
	Exclusions []string `json:"exclusions,omitempty"`
}
