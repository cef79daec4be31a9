package record

// DaemonRecord is how a DaemonSet's pods on the group's nodes were before the upgrade.
type DaemonRecord struct {
	// Ready counts the pods that were ready, Unready the others.
	Ready   int `json:"ready,omitempty"`
	Unready int `json:"unready,omitempty"`
	// Usual is how long its pods take to become ready; 0 for not known.
	Usual Duration `json:"usual,omitzero"`
}

// Tolerated returns how many of so many pods may be unready without being worse than before: as many
// as there were, the same share of more pods, and all if none was ready.
func (r DaemonRecord) Tolerated(pods int) int {
	if r.Unready == 0 {
		return 0
	}
	return max(r.Unready, (pods*r.Unready+r.Ready+r.Unready-1)/(r.Ready+r.Unready))
}
