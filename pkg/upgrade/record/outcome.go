package record

// Phase is how far the upgrade of the group is.
type Phase string

// These are the phases of the surge strategy, in order (EKS E01). PhaseDone ends every strategy.
const (
	PhaseSetup     Phase = "setup"
	PhaseScaleUp   Phase = "scale up"
	PhaseUpgrade   Phase = "upgrade"
	PhaseScaleDown Phase = "scale down"
	PhaseDone      Phase = "done"
)

// These are the phases of the blue-green strategy besides PhaseSetup and PhaseScaleDown, in order (GKE G40).
const (
	PhaseCreateGreen Phase = "create green"
	PhaseCordonBlue  Phase = "cordon blue"
	PhaseDrainBlue   Phase = "drain blue"
	PhaseSoak        Phase = "soak"
	PhaseDeleteBlue  Phase = "delete blue"
)

// Result is how an upgrade ended or stopped.
type Result string

const (
	// Succeeded means that nothing is left to do.
	Succeeded Result = "succeeded"
	// LeftBehind means that the upgrade finished except for quarantined nodes.
	LeftBehind Result = "left-behind"
	// PodEvictionFailure means that a node was not drained in time (EKS E42).
	PodEvictionFailure Result = "PodEvictionFailure"
	// NodeCreationFailure means that new nodes did not come up in time (EKS E33).
	NodeCreationFailure Result = "NodeCreationFailure"
	// WorkloadUnhealthy means that a workload's pods did not become ready on current nodes.
	WorkloadUnhealthy Result = "WorkloadUnhealthy"
	// Failed means that a server refused a request permanently, or that another error ended the upgrade.
	Failed Result = "failed"
	// Interrupted means that the user stopped the upgrade; the same command continues it.
	Interrupted Result = "interrupted"
	// Paused means that a user paused the upgrade, or that it stopped because another process changed something it
	// depends on. A person decides how to continue.
	Paused Result = "paused"
	// Waiting means that the upgrade has nothing to do before a time that is on record. The same command continues it
	// then.
	Waiting Result = "waiting"
	// TargetMoved means that the group's wanted revision is no longer the one that the upgrade began with.
	TargetMoved Result = "target-moved"
	// Aborted means that the upgrade was undone: nothing is left to continue.
	Aborted Result = "aborted"
)

// PhaseExpire is the phase of the short-lived strategy after PhaseSetup.
const PhaseExpire Phase = "expire"

// PhaseFollow is the phase in which the group's cloud carries the upgrade out.
const PhaseFollow Phase = "follow"

// PhaseWait is the phase of the autoscaled blue-green strategy between the fence and the drain.
const PhaseWait Phase = "wait"
