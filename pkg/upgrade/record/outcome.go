package record

// Phase is where the group is.
type Phase string

// The phases of the surge strategy, in order (EKS E01), and the ways an upgrade ends.
const (
	PhaseSetup     Phase = "setup"
	PhaseScaleUp   Phase = "scale up"
	PhaseUpgrade   Phase = "upgrade"
	PhaseScaleDown Phase = "scale down"
	PhaseDone      Phase = "done"
)

// The phases of the blue-green strategy beside PhaseSetup and PhaseScaleDown, in order (GKE G40).
const (
	PhaseCreateGreen Phase = "create green"
	PhaseCordonBlue  Phase = "cordon blue"
	PhaseDrainBlue   Phase = "drain blue"
	PhaseSoak        Phase = "soak"
	PhaseDeleteBlue  Phase = "delete blue"
)

// Result is how an upgrade ended, or stopped for now.
type Result string

const (
	// Succeeded is an upgrade with nothing left to do.
	Succeeded Result = "succeeded"
	// LeftBehind is an upgrade that finished but for quarantined nodes.
	LeftBehind Result = "left-behind"
	// PodEvictionFailure is a node that could not be drained in its time (EKS E42).
	PodEvictionFailure Result = "PodEvictionFailure"
	// NodeCreationFailure is new nodes that did not come up in their time (EKS E33).
	NodeCreationFailure Result = "NodeCreationFailure"
	// WorkloadUnhealthy is a workload whose pods did not become ready on current nodes.
	WorkloadUnhealthy Result = "WorkloadUnhealthy"
	// Failed is a request that a server refused for good.
	Failed Result = "failed"
	// Interrupted is an upgrade the user stopped; the same command continues.
	Interrupted Result = "interrupted"
	// Paused is an upgrade that stopped because another actor changed what it rests on; a person
	// decides.
	Paused Result = "paused"
	// Waiting is an upgrade that has nothing to do before a time that is on record: the same
	// command continues then.
	Waiting Result = "waiting"
	// TargetMoved is a group whose wanted revision is no longer the one the upgrade began with.
	TargetMoved Result = "target-moved"
	// Aborted is an upgrade whose traces were taken away: nothing is left to continue with.
	Aborted Result = "aborted"
)

// PhaseExpire is the phase of the short-lived strategy after PhaseSetup.
const PhaseExpire Phase = "expire"

// PhaseFollow is the phase in which the group's cloud carries the upgrade out.
const PhaseFollow Phase = "follow"

// PhaseWait is the phase of the autoscaled blue-green strategy between the fence and the drain.
const PhaseWait Phase = "wait"
