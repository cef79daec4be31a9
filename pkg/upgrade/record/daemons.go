package record

// DaemonRecord is the state of a DaemonSet's pods on the group's nodes before the upgrade.
type DaemonRecord struct {
	// Ready counts the pods that were ready, Unready the others.
	Ready   int `json:"ready,omitempty"`
	Unready int `json:"unready,omitempty"`
	// Usual is how long its pods take to become ready; 0 if unknown.
	Usual Duration `json:"usual,omitzero"`
}

// ToleratedUnready returns how many of the pods may be unready: as many as before the upgrade, or the same share if the
// DaemonSet has more pods now. If no pod was ready before the upgrade, all may be unready.
func (r DaemonRecord) ToleratedUnready(pods int) int {
	if r.Unready == 0 {
		return 0
	}
	return max(r.Unready, (pods*r.Unready+r.Ready+r.Unready-1)/(r.Ready+r.Unready))
}
